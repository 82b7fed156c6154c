"""The results of shipped studies that firth keeps, and where they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Firth

from firth.experiments.studies.recorded import recorded
from firth.experiments.studies.study import FOLDER, shipped_studies

NAMES = [name for name in shipped_studies() if recorded(name) is not None]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_that_of_the_study_as_it_is_now(name: str) -> None:
    """A claim that is changed once its result is known would be tuned to it."""
    full = recorded(name)
    assert full is not None
    study = full.study
    assert [(one["says"], one["check"]) for one in full.facts["claims"]] == [(one.says, one.check) for one in study.claim]
    wanted = study.at("full").arms or study.arms
    assert list(full.facts["arms"]) == list(wanted)
    assert all(set(of) == set(study.measure) for of in full.facts["arms"].values())
    for one in full.verdicts():
        assert one.margin is not None
        assert one.held is (one.margin >= 0) or one.margin == 0  # "more than" does not hold if both are equal
    assert full.facts["seeds"] >= 3


def test_every_recorded_result_belongs_to_a_shipped_study() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


def test_the_list_counts_the_claims_that_held(firth: Firth) -> None:
    listed = firth("reproduce", "--list").out
    assert "at full scale, 2026-11-19: 2 of 3 claims held" in listed
    by_name = {one["study"]: one for one in json.loads(firth("reproduce", "--list", "--json").out)}
    assert by_name["luong2015"]["recorded"]["arms"]["dot"]["bleu"]["mean"] == 39.56


def test_a_file_of_ones_own_has_no_recorded_result(tmp_path: Path) -> None:
    assert recorded(str(tmp_path / "garg2022.toml")) is None
