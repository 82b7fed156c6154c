"""Outputs of a tiny model of each public family equal the recorded ones, without `transformers`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from old_runs.drawn.make import answers, written
from public_models.make import HERE
from same_numbers.known import differences
from shares import half

from firth.interop import FAMILIES

KEPT = sorted(path.parent.name for path in HERE.glob("*/expected.json"))
COMMAND = "PYTHONPATH=.:tests:tests/interop python tests/interop/public_models/make.py"


@pytest.mark.parametrize("name", half(KEPT))
def test_a_public_model_says_what_is_known(name: str, tmp_path: Path) -> None:
    expected = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    differing = list(differences(answers(written(HERE / name, tmp_path / "model", expected.pop("seed"))), expected))
    assert not differing, "\n".join(differing)


def test_there_is_a_model_of_every_family() -> None:
    kept = {json.loads(path.read_text(encoding="utf-8"))["model_type"] for path in HERE.glob("*/config.json")}
    missing = {family.model_type for family in FAMILIES} - kept
    assert not missing, f"{sorted(missing)}: add them to family_walk.py and run {COMMAND}"
