"""Files of word-in-context pairs: what is read, and which file and pair is at fault."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from senses import PAIRS, write_wic

from firth.errors import DataError
from firth.text.datasets.wic import read_wic


def test_pairs_have_the_word_at_its_place(tmp_path: Path) -> None:
    train, dev = read_wic(write_wic(tmp_path))
    assert train == dev
    assert [(pair.first.sentence, pair.second.sentence, pair.same) for pair in dev] == PAIRS
    assert {place.word for pair in dev for place in (pair.first, pair.second)} == {"list"}
    assert dev[2].first.span == (7, 11)


def test_files_may_be_compressed(tmp_path: Path) -> None:
    plain = read_wic(write_wic(tmp_path))
    for path in list(tmp_path.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_wic(tmp_path) == plain


def test_the_named_set_is_read(firth_data: Path) -> None:
    train, dev = read_wic()
    assert (len(train), len(dev)) == (5428, 160)
    assert sum(pair.same for pair in train) == 2714
    assert (dev[0].first.word, dev[2].second.word, dev[2].same) == ("arousal", "dipped", False)


def changed(folder: Path, part: str, record: int | None, **change: Any) -> None:
    path = folder / part
    records = json.loads(path.read_text(encoding="utf-8"))
    if record is not None:
        records[record] |= change
    path.write_text(json.dumps(records if record is not None else change), encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "record", "change", "message"),
    [
        (
            "dev.en-en.wic.data",
            1,
            {"end1": 99},
            r"dev.en-en.wic.data, pair 2: start1 and end1 are 17 and 99 of sentence1 = 'a name",
        ),
        (
            "dev.en-en.wic.data",
            0,
            {"start2": "x"},
            r"pair 1: start2 and end2 are 'x' and 11 .*the first character of a word",
        ),
        ("dev.en-en.wic.data", 0, {"sentence2": None}, r"of sentence2 = None"),
        ("train.en-en.wic.data", 3, {"id": "y"}, r"pair 4 has the id 'y', whose tag in .*train.en-en.wic.gold is None; expected"),
        ("train.en-en.wic.gold", 0, {"tag": "yes"}, r"pair 1 has the id 'train.0', whose tag in .* is 'yes'"),
        ("train.en-en.wic.gold", None, {"tag": "T"}, r"train.en-en.wic.gold is JSON, but not a list of objects"),
    ],
    ids=range(6),
)
def test_what_is_wrong_is_named(part: str, record: int | None, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    changed(write_wic(tmp_path), part, record, **change)
    with pytest.raises(DataError, match=message):
        read_wic(tmp_path)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent is not a folder; expected one with train….data, train….gold, dev….data and"):
        read_wic(tmp_path / "absent")
    (write_wic(tmp_path) / "dev.en-en.wic.gold").unlink()
    with pytest.raises(DataError, match=r"has none matching dev….gold; expected one file"):
        read_wic(tmp_path)
    for name in ("dev.a.gold", "dev.b.gold.gz"):
        (tmp_path / name).write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"has dev.a.gold, dev.b.gold.gz matching dev….gold; expected one file"):
        read_wic(tmp_path)


def test_a_file_that_is_no_json_or_empty_is_named(tmp_path: Path) -> None:
    (write_wic(tmp_path) / "dev.en-en.wic.data").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev.en-en.wic.data has no pairs"):
        read_wic(tmp_path)
    (tmp_path / "dev.en-en.wic.data").write_text("id\tlemma", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev.en-en.wic.data is not JSON"):
        read_wic(tmp_path)
