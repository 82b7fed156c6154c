from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from firth.text.data_set import DATA_SETS, File


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FIRTH_CACHE", str(folder))
    return folder


@pytest.fixture
def mirror_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Mapping[str, str]]], Path]:
    """A mirror whose data sets are a few lines long: by name, the text of each file."""

    def fill(sets: Mapping[str, Mapping[str, str]]) -> Path:
        for name, contents in sets.items():
            (tmp_path / name).mkdir()
            files = []
            for file, text in contents.items():
                (tmp_path / name / file).write_text(text)
                files.append(File(file, len(text), hashlib.sha256(text.encode()).hexdigest(), None))
            monkeypatch.setitem(DATA_SETS._of, name, dataclasses.replace(DATA_SETS[name], files=tuple(files)))
        monkeypatch.setenv("FIRTH_DATA", str(tmp_path))
        return tmp_path

    return fill


@pytest.fixture
def mirror(request: pytest.FixtureRequest, mirror_of: Callable[[Mapping[str, Mapping[str, str]]], Path]) -> Path:
    """With the data sets in SMALL of the test's module."""
    return mirror_of(request.module.SMALL)
