from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, for tests that look at what is in it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FIRTH_CACHE", str(folder))
    return folder
