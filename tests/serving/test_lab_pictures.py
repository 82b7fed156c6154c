"""The pictures of docs/lab.md and README are those that their script takes."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from docs_scripts import DOCS, docs_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return docs_script("make_lab_pictures")


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
