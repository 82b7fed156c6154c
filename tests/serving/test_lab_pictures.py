"""The pictures of docs/lab.md and README are those that their script takes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_lab_pictures", DOCS / "make_lab_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_taken_by_the_script_and_shown_on_the_page(script: ModuleType) -> None:
    pictures = {path.stem: path for path in (DOCS / "lab").iterdir()}
    assert set(pictures) == set(script.PICTURES)
    page = (DOCS / "lab.md").read_text(encoding="utf-8")
    for name in script.PICTURES:
        assert f"](lab/{name}.png)" in page, name
    assert f"](docs/lab/{script.FRONT}.png)" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert all(path.stat().st_size <= script.LARGEST for path in pictures.values())


def test_every_room_has_a_picture(script: ModuleType) -> None:
    from firth.serving.lab.rooms import ROOMS

    assert {re.split("[?/]", address.removeprefix("#/"))[0] for address, _ in script.PICTURES.values()} == {"", *ROOMS.kinds}
