"""Images with captions from tables: paths, splits, several captions of an image, errors, batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from captioned import write_captions

from firth.errors import ConfigError, DataError
from firth.text.config import CaptionsConfig, TokenizerConfig
from firth.text.data.captions import encode_captions, prepare_captions
from firth.text.datasets.scenes import scenes

WORDS = TokenizerConfig(kind="word")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))


def config(path: Path, **settings: object) -> CaptionsConfig:
    return CaptionsConfig(**({"path": str(path), "size": 24} | settings))  # type: ignore[arg-type]


def test_paths_are_relative_to_the_table_and_each_caption_has_its_own_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_captions(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    data = prepare_captions(config(table, valid=0.25), WORDS)
    known = dict(
        zip((image.tobytes() for image in scenes(20, "train", 24).image_NHWC), scenes(20, "train", 24).captions, strict=True)
    )
    assert data.valid is not None
    assert (len(data.train), len(data.valid)) == (15, 5)
    for part in (data.train, data.valid):
        batch = part.batch(np.arange(len(part)))
        for row, (image, text) in enumerate(zip(batch.image_BHWC, part.texts, strict=True)):
            assert known[image.tobytes()] == text
            target = batch.target_BT[row, : batch.target_length_B[row]]
            if part is data.train:  # a held-out word may be unknown
                assert data.tokenizer.decode(target[:-1]).strip() == text
            assert target[-1] == data.tokenizer.eos == batch.input_BT[row, 0]
            assert np.array_equal(batch.input_BT[row, 1 : len(target)], target[:-1])


def test_all_captions_of_an_image_are_in_one_part(tmp_path: Path) -> None:
    data = prepare_captions(config(write_captions(tmp_path / "data", twice=True), valid=0.25), WORDS)
    assert data.valid is not None
    assert len(data.train) + len(data.valid) == 40
    assert not set(data.train.image_N.tolist()) & set(data.valid.image_N.tolist())
    assert {len(texts) for texts in data.valid.references().values()} == {2}
    assert len(data.train.image_MHWC) == 20, "an image is read once, however many captions it has"


def test_the_fingerprint_changes_with_a_pixel_and_with_a_caption(tmp_path: Path) -> None:
    from firth.figures.image_attention import png

    table = write_captions(tmp_path / "data", 4)
    first = prepare_captions(config(table), WORDS).sha256
    assert prepare_captions(config(table), WORDS).sha256 == first
    image = scenes(4, "train", 24).image_NHWC[0].copy()
    image[0, 0] ^= 1
    (tmp_path / "data" / "images" / "0.png").write_bytes(png(image))
    second = prepare_captions(config(table), WORDS).sha256
    table.write_text(table.read_text().replace("\ta ", "\tthe "))
    assert len({first, second, prepare_captions(config(table), WORDS).sha256}) == 3


def test_long_captions_are_left_out_of_training_with_a_notice(tmp_path: Path) -> None:
    data = prepare_captions(config(write_captions(tmp_path / "data"), valid=0.0), WORDS, limit=5)
    assert 0 < len(data.train) < 20
    assert data.train.length_N.max() <= 6
    assert data.notice is not None
    assert f"{20 - len(data.train)} of 20 training captions" in data.notice


def test_columns_can_have_other_names_and_no_header(tmp_path: Path) -> None:
    table = write_captions(tmp_path / "data", 4)
    bare = table.with_name("bare.tsv")
    bare.write_text("".join(f"{n}\t{line}\n" for n, line in enumerate(table.read_text().splitlines()[1:])))
    data = config(bare, columns=("number", "file", "text"), image="file", caption="text")
    assert encode_captions(bare, prepare_captions(data, WORDS).tokenizer, data).texts == scenes(4, "train", 24).captions


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gone.png\ta red circle", r"captions.tsv:6: there is no image .*gone.png. Paths are relative"),
        ("captions.tsv\ta red circle", r"captions.tsv:6: .*captions.tsv is not a readable image"),
        ("images/0.png", r"captions.tsv:6 has 1 cell; \"caption\" is column 2 of 2"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    table = write_captions(tmp_path / "data", 4)
    table.write_text(table.read_text() + line + "\n")
    with pytest.raises(DataError, match=message):
        prepare_captions(config(table), WORDS)


@pytest.mark.parametrize("line", ["images/0.png\t ", "\ta red circle"])
def test_a_record_without_an_image_or_a_caption_is_skipped_or_refused(line: str, tmp_path: Path) -> None:
    table = write_captions(tmp_path / "data", 4)
    table.write_text(table.read_text() + line + "\n")
    problem = "1 of 5 records of .* has no image or no caption"
    with pytest.warns(UserWarning, match=problem + r" and is skipped: .*captions\.tsv:6"):
        assert len(prepare_captions(config(table, valid=0.0), WORDS).train) == 4
    with pytest.raises(DataError, match=problem):
        prepare_captions(config(table, empty="refuse"), WORDS)


def test_settings_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data.valid is 0.2, but scenes has its own splits"):
        CaptionsConfig(name="scenes", valid=0.2)
    with pytest.raises(ConfigError, match=r"data.size is 4; expected 8 to 1024"):
        CaptionsConfig(name="scenes", size=4)
    with pytest.raises(ConfigError, match=r"standard input"):
        CaptionsConfig(path="-")
    with pytest.raises(ConfigError, match=r"data.text has no images"):
        prepare_captions(CaptionsConfig(text="a red circle"), WORDS)
    with pytest.raises(ConfigError, match=r"digits are enlarged from 8 pixels"):
        prepare_captions(CaptionsConfig(name="digits", size=12), WORDS)


def test_batches_are_determined_by_their_position() -> None:
    data = prepare_captions(CaptionsConfig(name="scenes", count=50, size=24), WORDS)
    batches, again = (data.train.bucketed(8, seed=3) for _ in range(2))
    for _ in range(7):
        batches.next()
    again.seek(7)
    one, other = batches.next(), again.next()
    assert np.array_equal(one.image_BHWC, other.image_BHWC)
    assert np.array_equal(one.target_BT, other.target_BT)


def test_scenes_have_a_part_of_unseen_pairs_and_draw_nothing_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepare_captions(CaptionsConfig(name="scenes", count=50), WORDS)
    assert data.unseen is not None
    assert (len(data.train), len(data.unseen)) == (50, 5)
    assert "image_MHWC" not in vars(data.train)
