"""The runs and word vectors in the folders that a server was started with, and the names by which they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firth.files import is_folder
from firth.training.folder import RunFolder


def runs_in(place: Path) -> list[Path]:
    """The place itself if it is a run or has disappeared, otherwise the runs in it."""
    if RunFolder(place).exists() or not is_folder(place):
        return [place]
    return sorted(path for path in place.iterdir() if RunFolder(path).exists())


def vectors_in(place: Path) -> list[Path]:
    """The word vectors that firth saved in a folder of runs."""
    return [] if RunFolder(place).exists() else sorted(place.glob("*.firth"))


def by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """By the folder's name, or by the whole path if two folders have the same name."""
    unique = list(dict.fromkeys(paths))
    names = [path.name or str(path) for path in unique]
    return {name if names.count(name) == 1 else str(path): path for name, path in zip(names, unique, strict=True)}
