"""Caches with a flipped byte are made again, and an unchanged file is read only once."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from firth import files
from firth.text import sealed
from firth.text.datasets import negations, python_source_tags, stories
from firth.text.readers.images import read_images


def flip(path: Path, at: int) -> None:
    content = path.read_bytes()
    path.unlink()  # not overwritten: the old one may be mapped
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def old(path: Path) -> Path:
    """As if it had been written long ago."""
    os.utime(path, (1e9, 1e9))
    return path


def an_image(folder: Path) -> Path:
    from PIL import Image

    if not (folder / "a.png").exists():
        Image.new("RGB", (4, 4), "red").save(folder / "a.png")
    read_images([folder / "a.png"], ["line 1"], 4)
    (kept,) = (Path(os.environ["FIRTH_CACHE"]) / "images").glob("*.bytes")
    return kept


CACHES: dict[str, Callable[[Path], Path]] = {
    "negations": lambda folder: negations.negations_file(),
    "stories": lambda folder: stories.cached_parts()["valid"],
    "python-source": lambda folder: python_source_tags.cached_parts()["train"],
    "images": an_image,
}


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_with_a_flipped_byte_is_made_again_with_a_notice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_source_tags, "_files", lambda: sorted(Path(csv.__file__).parent.glob("c*.py")))
    monkeypatch.setattr(python_source_tags, "WORDS", {"train": 50, "valid": 50, "test": 50})
    monkeypatch.setattr(stories, "_SIZES", {"train": 2, "valid": 2, "test": 2})
    path = CACHES[name](tmp_path)
    expected = path.read_bytes()
    old(path)
    assert CACHES[name](tmp_path) == path
    flip(path, 10)
    with pytest.warns(UserWarning, match=f"{path.name} in the cache is damaged and will be created again"):
        CACHES[name](tmp_path)
    assert path.read_bytes() == expected


def test_a_file_is_hashed_once_per_change(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache / "a.txt"
    hashed: list[Path] = []
    monkeypatch.setattr(sealed, "sha256_of", lambda path: hashed.append(path) or files.sha256_of(path))
    sealed.write_text(path, "some text\n")
    assert sealed.whole(path)  # so new that its time says nothing
    assert sealed.whole(old(path))
    assert len(hashed) == 2
    assert sealed.whole(path)
    assert len(hashed) == 2
    os.utime(path, (1e9 + 5, 1e9 + 5))
    assert sealed.whole(path)
    assert len(hashed) == 3


def test_a_damaged_seal_is_no_proof(cache: Path) -> None:
    path = cache / "a.txt"
    sealed.write_text(path, "some text\n")
    (seal,) = (cache / "seals").iterdir()
    for damage in ("", "[]", "{}", '{"sha256": 5}', "[" * 100_000):
        seal.write_text(damage)
        assert not sealed.whole(path)
