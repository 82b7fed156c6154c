from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firth.config import build, choices
from firth.errors import DataError
from firth.text.config import DataConfig, Name, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.data_set import DATA_SETS, DataSet
from firth.text.datasets import download
from firth.vectors.sentences import opened

LARGE = {"wiki8"}
FILED = [one for kind in DATA_SETS.all_kinds if (one := DATA_SETS[kind]).files]
NAMES = [one.name for one in FILED]


def test_the_names_that_were_promised_are_there() -> None:
    promised = "tinyshakespeare ptb wikitext-2 text8 enwik8 multi30k tatoeba-en-nl sst2 ud-english-ewt imdb conll2003"
    assert set(promised.split()) <= set(NAMES)


@pytest.mark.parametrize("entry", FILED, ids=lambda entry: entry.name)
def test_an_entry_can_be_fetched_and_checked_as_it_says(entry: DataSet) -> None:
    names = [file.name for file in entry.files]
    assert names
    assert len(set(names)) == len(names)
    assert {part for part in (entry.train, entry.valid, entry.test) if part} <= set(names)
    assert entry.licence
    assert entry.home.startswith(("https://", "http://"))
    for file in entry.files:
        assert not file.name.startswith(".")
        assert "/" not in file.name
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.url is None or file.url.startswith(("https://", "http://"))
        assert file.url or file.sha256, "neither an address nor a way to know the file"
        assert file.packing == "plain" or (file.url or "").endswith(f".{file.packing}")


def test_a_set_that_recipes_cannot_name_is_known_before_any_other_was_asked_for() -> None:
    code = "from firth.text.data_set import DATA_SETS; print(DATA_SETS['analogy'].name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("analogy\n", 0), done.stderr


def test_a_recipe_can_name_exactly_the_sets_that_are_running_text_or_labelled_or_pairs() -> None:
    composed = {"docs", "dates", "docstrings", "prompts", "chats", "swaps", "linear", "scenes", "digits", "python-source"}
    composed |= {"stories", "opinions"}
    assert set(choices(Name)) == composed | {entry.name for entry in FILED if entry.train or entry.pairs}


@pytest.mark.parametrize("entry", [entry for entry in FILED if entry.pairs], ids=lambda entry: entry.name)
def test_the_parts_of_a_set_of_pairs_are_files_of_it(entry: DataSet) -> None:
    assert entry.pairs is not None
    sides = entry.pairs.sides if entry.pairs.layout == "file each" else ("",)
    parts = [part for split in entry.pairs.splits for part in (split.train, split.valid, split.test) if part]
    named = [f"{part}.{side}" if side else part for part in parts for side in sides]
    assert sorted(named) == sorted(file.name for file in entry.files)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LARGE)) for n in NAMES])
def test_the_checksums_are_those_of_the_shared_data(name: str, firth_data: Path, cache: Path) -> None:
    if not (firth_data / name).is_dir():
        pytest.skip(f"FIRTH_DATA has no {name}")
    assert DATA_SETS[name].verified
    folder = download.local(name)
    assert sorted(path.name for path in folder.iterdir()) == sorted(file.name for file in DATA_SETS[name].files)


@pytest.fixture
def small_ptb(mirror_of: Callable[..., Path]) -> dict[str, str]:
    """A mirror whose ptb is seven lines long."""
    texts = {"train": "the cat sat\n" * 5, "valid": "a cat\n", "test": "that\n"}
    mirror_of({"ptb": {f"ptb.{part}.txt": text for part, text in texts.items()}})
    return texts


def test_a_named_set_brings_its_own_validation_and_test_text(small_ptb: dict[str, str]) -> None:
    prepared = prepare(build(DataConfig, {"name": "ptb"}, "data"), TokenizerConfig(kind="char"))
    assert prepared.valid is not None
    assert prepared.test is not None
    for part, tokens in zip(small_ptb, (prepared.train, prepared.valid, prepared.test), strict=True):
        assert prepared.tokenizer.decode([int(id) for id in tokens.ids]).startswith(small_ptb[part].rstrip("\n"))
    assert prepared.sha256 == hashlib.sha256(small_ptb["train"].encode()).hexdigest()


def test_the_texts_of_a_named_set_with_labels_are_running_text(mirror_of: Callable[..., Path]) -> None:
    mirror_of({"sst2": {f"{part}.tsv": f"{part} tests\t1\n" for part in ("train", "dev", "test")}})
    prepared = prepare(DataConfig(name="sst2"), TokenizerConfig(kind="char"))
    parts = (prepared.train, prepared.valid, prepared.test)
    decoded = [prepared.tokenizer.decode([int(id) for id in part.ids]) for part in parts if part]
    assert decoded == ["train tests", "dev tests", "test tests"]
    with opened("sst2") as corpus:  # as word vectors read it
        assert [piece.text for piece in corpus.pieces()] == ["train tests"]


def test_a_validation_text_that_is_given_takes_the_place_of_the_sets_own(small_ptb: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("hat\n")
    data = DataConfig(name="ptb", valid_path=str(tmp_path / "mine.txt"))
    prepared = prepare(data, TokenizerConfig(kind="char"))
    assert prepared.valid is not None
    assert prepared.tokenizer.decode([int(id) for id in prepared.valid.ids]).startswith("hat")


def test_a_recipe_does_not_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRTH_DATA", raising=False)
    monkeypatch.setattr(download, "fetched", lambda *args, **kwargs: pytest.fail("asked for the network"))
    with pytest.raises(DataError, match="Download it: firth data get tinyshakespeare"):
        prepare(DataConfig(name="tinyshakespeare"), TokenizerConfig())
