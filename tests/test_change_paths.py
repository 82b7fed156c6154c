"""CONTRIBUTING's table of change paths names files, folders and lists that are there, and the list of every kind of idea."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
_TABLE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| to add |")[2].partition("\n\n")[0]
ROWS = {row.split(" | ")[0].strip("| "): row for row in _TABLE.splitlines()[2:]}
PATH = re.compile(r"`(firth/[\w/.<>]+)`")
DEFINED = re.compile(r"`(_?[A-Z][A-Z_]{3,})(?:\.\w+)?`")


IN_NEW_FILES = {"KNOWS", "ROOM"}


def defines(file: Path, name: str) -> bool:
    return re.search(rf"^{name}\b|\b{name}\.ship\(", file.read_text(encoding="utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize("kind", list(ROWS))
def test_a_row_names_what_is_there(kind: str) -> None:
    paths = PATH.findall(ROWS[kind])
    assert paths
    for path in paths:
        assert list(CHECKOUT.glob(re.sub(r"<\w+>", "*", path))), f"{path} is not there"
    files = [CHECKOUT / path for path in paths if path.endswith(".py") and "<" not in path]
    for name in set(DEFINED.findall(ROWS[kind])) - IN_NEW_FILES:
        assert any(defines(file, name) for file in files), name


def test_every_collection_of_ideas_has_a_row() -> None:
    defined = re.compile(r"^([A-Z_]+): Ideas\[", re.MULTILINE)
    modules = (CHECKOUT / "firth").rglob("*.py")
    collections = {name for file in modules for name in defined.findall(file.read_text(encoding="utf-8"))}
    assert len(collections) > 10
    assert collections <= set(DEFINED.findall(_TABLE))
