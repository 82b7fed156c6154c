"""Results of the shipped studies at full scale: NAME.json beside NAME.toml is what `firth reproduce NAME --scale full --json`
printed. Figures are never edited, nor is a claim once its result is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firth.experiments.studies.claims import ClaimVerdict
from firth.experiments.studies.study import FOLDER, Arm, Study, find_study, shipped_studies
from firth.experiments.studies.tables import MeasuredCell, StudyTables


@dataclass(frozen=True)
class RecordedStudy(StudyTables):
    """A shipped study and what it gave when it was run at full scale."""

    name: str
    study: Study
    facts: Mapping[str, Any]

    def arms(self) -> Mapping[str, Arm]:
        return {name: arm for name, arm in self.study.arms.items() if name in self.facts["arms"]}

    def cell(self, arm: str, measure: str) -> MeasuredCell:
        found = self.facts["arms"][arm].get(measure) or {"mean": None, "sd": None}
        published, of = self.study.arms[arm].published.get(measure), self.study.measure[measure]
        return MeasuredCell(found["mean"], found["sd"], published, of.digits, missing=of.missing)

    def verdicts(self) -> list[ClaimVerdict]:
        return [ClaimVerdict(one["held"], one["margin"], one["error"]) for one in self.facts["claims"]]

    @property
    def made(self) -> str:
        """When and on what: "2026-11-19, NVIDIA H200, torch 2.11.0, firth 231639b8"."""
        of = self.facts["made"]
        return f"{of['date']}, {of['hardware']}, torch {of['torch']}, firth {of['firth']}"

    def in_short(self) -> str:
        """ "at full scale, 2026-11-19: 2 of 3 claims held" """
        held = [one.held for one in self.verdicts()].count(True)
        return f"at full scale, {self.facts['made']['date']}: {held} of {len(self.study.claim)} claims held"


def recorded(name: str) -> RecordedStudy | None:
    """The recorded result of a shipped study; None if it has not been run at full scale."""
    place = FOLDER / f"{name}.json"
    if name not in shipped_studies() or not place.is_file():
        return None
    return RecordedStudy(name, find_study(name)[2], json.loads(place.read_text(encoding="utf-8")))
