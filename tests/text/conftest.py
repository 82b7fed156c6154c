from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FIRTH_CACHE", str(folder))
    return folder


@pytest.fixture
def real_data() -> Path:
    folder = os.environ.get("FIRTH_DATA")
    if not folder:
        pytest.skip("FIRTH_DATA is not set: no real corpora to test with")
    return Path(folder)
