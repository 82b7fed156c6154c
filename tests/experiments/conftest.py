"""A study of one's own, for the tests of clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from on_clusters import own_study

    return own_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def alone(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the models give without a cluster."""
    from on_clusters import command, facts

    return facts(command("reproduce", study, tmp_path_factory.mktemp("alone"), "--json"))["arms"]
