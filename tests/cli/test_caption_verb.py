"""firth caption and firth data export, as the shell calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from captioned import caption_table, write_captions
from PIL import Image
from shell import Firth, assert_refused, firth

from firth.api import compose, train_recipe
from firth.text.datasets.scenes import scenes

__all__ = ["firth"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows six scenes, and their images."""
    folder = tmp_path_factory.mktemp("caption")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRTH_CACHE", str(folder / "cache"))
        table = write_captions(folder / "data", 6)
        recipe = compose(caption_table({"path": str(table), "size": 24, "valid": 0.0}, steps=80, batch=6))
        train_recipe(recipe, folder / "run")
    return folder


def images(place: Path, count: int) -> list[Path]:
    return [place / "data" / "images" / f"{n}.png" for n in range(count)]


def test_one_image_gives_one_line_and_several_give_a_line_each(place: Path, firth: Firth) -> None:
    expected = scenes(3, "train", 24).captions
    assert firth("caption", place / "run", *images(place, 1)).out == f"{expected[0]}\n"
    lines = firth("caption", place / "run", *images(place, 3)).out.splitlines()
    assert lines == [f"{path}\t{text}" for path, text in zip(images(place, 3), expected, strict=True)]


def test_json_has_a_caption_per_line_and_the_attention(place: Path, firth: Firth) -> None:
    given = firth("caption", place / "run", *images(place, 2), "--json", "--nbest", 2, "--attention").out.splitlines()
    first, _ = map(json.loads, given)
    assert first["caption"] == scenes(1, "train", 24).captions[0] == first["nbest"][0]["text"]
    assert first["attention"]["words"][-1] == "<eos>"
    weights = np.array(first["attention"]["weights"])
    assert weights.shape == (len(first["attention"]["words"]), 6, 6)
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-5)


def test_nbest_and_attention_are_printed_as_text(place: Path, firth: Firth) -> None:
    out = firth("caption", place / "run", *images(place, 1), "--nbest", 2).out
    assert [line.split(" ||| ")[0] for line in out.splitlines()] == ["0", "0"]
    out = firth("caption", place / "run", *images(place, 1), "--attention").out
    assert "█" in out
    assert scenes(1, "train", 24).captions[0].split()[-1] in out


def test_the_overlay_is_a_picture_and_the_page_has_the_numbers(place: Path, firth: Firth, tmp_path: Path) -> None:
    answer = firth("caption", place / "run", *images(place, 2), "--overlay", tmp_path / "o.png", "--save", tmp_path / "o.html")
    assert answer.code == 0, answer.err
    words = [len(text.split()) + 1 for text in scenes(2, "train", 24).captions]  # and <eos>
    side = 3 * 24 + 4
    with Image.open(tmp_path / "o.png") as sheet:
        assert sheet.size == (4 + side * (1 + max(words)), 4 + side * 2)
    page = (tmp_path / "o.html").read_text()
    assert "data:image/png;base64," in page
    assert page.count("<tr>") >= 36 * sum(words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nbest", "3", "--beam", "2"], "--nbest 3 needs a --beam of at least 3, not 2"),
        (["--seed", "3"], "--seed only applies to sampling"),
        (["--sample", "--beam", "2"], "--sample cannot be combined"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: list[str], message: str, place: Path, firth: Firth) -> None:
    answer = firth("caption", place / "run", *images(place, 1), *options)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


def test_a_missing_image_is_one_line(place: Path, firth: Firth) -> None:
    assert_refused(firth("caption", place / "run", "gone.png"), "cannot read the image gone.png: No such file or directory")


def test_exported_images_are_a_data_set(firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    assert firth("data", "export", "scenes", "--out", tmp_path / "data", "--count", 3, "--part", "unseen").code == 0
    expected = scenes(3, "unseen")
    lines = (tmp_path / "data" / "captions.tsv").read_text().splitlines()
    assert [line.split("\t")[1] for line in lines] == ["caption", *expected.captions]
    assert np.array_equal(np.asarray(Image.open(tmp_path / "data" / "0002.png")), expected.image_NHWC[2])
    assert "not an empty folder" in firth("data", "export", "digits", "--out", tmp_path / "data").err
    assert 'digits has no part "unseen"' in firth("data", "export", "digits", "--out", tmp_path / "x", "--part", "unseen").err
    assert 'there are no images called "scene"' in firth("data", "export", "scene", "--out", tmp_path / "x").err
