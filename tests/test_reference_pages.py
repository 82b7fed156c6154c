"""docs/commands.md is what docs/make_reference.py writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
STALE = "run python docs/make_reference.py"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_line_reference_is_up_to_date(maker: ModuleType) -> None:
    assert maker.COMMANDS.read_text(encoding="utf-8") == maker.commands_page(), STALE
