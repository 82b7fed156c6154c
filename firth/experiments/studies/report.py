"""What a study found: its tables, its claims, and a page with its figures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from firth.experiments.records.run_record import how_trained
from firth.experiments.studies.claims import ClaimVerdict, Values, verdict
from firth.experiments.studies.drawings import drawn_figures
from firth.experiments.studies.plan import StudyPlan
from firth.experiments.studies.recorded import RecordedStudy
from firth.experiments.studies.study import Arm, Study
from firth.experiments.studies.tables import MeasuredCell, StudyTables
from firth.experiments.studies.trial import RunResult
from firth.figures.figure import Figure, Table
from firth.figures.latex import latex_table
from firth.figures.page import Section, save_sections
from firth.training import history
from firth.training.folder import RunFolder


@dataclass(frozen=True, repr=False)
class StudyReport(StudyTables):
    """The result of a study. `.text()` prints it, `.facts()` is plain data, `.save(path)` writes a page with all figures."""

    name: str  # of the study
    study: Study  # its file
    scale: str  # how large the runs are
    plan: StudyPlan  # the runs with their recipes
    results: Mapping[Path, RunResult]  # of each run, by its folder
    recorded: RecordedStudy | None = None  # the result at full scale that ships with firth

    def arms(self) -> Mapping[str, Arm]:
        return self.plan.arms

    def values(self, arm: str, measure: str) -> list[float | None]:
        """The measure of each seed; None where it was not measured."""
        return [self.results[job.folder].measures.get(measure) for job in self.plan.jobs if job.arm == arm]

    def cell(self, arm: str, measure: str) -> MeasuredCell:
        published = self.plan.arms[arm].published.get(measure)
        return MeasuredCell.over(self.values(arm, measure), published, self.study.measure[measure])

    def _values(self) -> dict[str, dict[str, Values]]:
        """nan for what was not measured, and for arms that this scale leaves out."""
        missing = np.full(self.plan.seeds, math.nan)
        return {
            measure: {
                arm: np.array([math.nan if value is None else value for value in self.values(arm, measure)])
                if arm in self.plan.arms
                else missing
                for arm in self.study.arms
            }
            for measure in self.study.measure
        }

    def verdicts(self) -> list[ClaimVerdict]:
        values = self._values()
        return [verdict(claim.check, values) for claim in self.study.claim]

    @property
    def all_held(self) -> bool:
        """True if every claim held."""
        return all(one.held for one in self.verdicts())

    def diverged(self) -> list[str]:
        return [f"{job.name}: {told}" for job in self.plan.jobs if (told := self.results[job.folder].diverged)]

    def notes(self) -> list[str]:
        """What the runs remarked, each once, with the arms that it is about."""
        arms_of: dict[str, dict[str, None]] = {}
        for job in self.plan.jobs:
            for note in self.results[job.folder].notes:
                arms_of.setdefault(note, {})[job.arm] = None
        return [f"{', '.join(arms)}: {note}" for note, arms in arms_of.items()]

    def made(self) -> dict[str, str]:
        """When the last run ended, and the hardware, torch and firth of all of them."""
        figures = [how_trained(history.read(RunFolder(job.folder))) for job in self.plan.jobs]
        known = {name: sorted({str(of[name]) for of in figures if of[name]}) for name in ("ended", "hardware", "torch")}
        firth = sorted({str(of["commit"] or of["firth"])[:8] for of in figures if of["commit"] or of["firth"]})
        several = {name: ", ".join(values) for name, values in known.items() if name != "ended"}
        return {"date": max(known["ended"], default="")[:10], **several, "firth": ", ".join(firth)}

    def lead(self) -> list[str]:
        """The study in sentences: what it is, and how the runs were made comparable."""
        source = f" ({self.study.source})" if self.study.source else ""
        lines = [f"{self.name}: {self.study.summary}{source}."]
        seeds = "one seed" if self.plan.seeds == 1 else f"mean ± standard deviation over {self.plan.seeds} seeds"
        lines.append(f"Scale: {self.scale}; {seeds}.")
        if (budget := self.study.budget) is not None:
            changed = ", ".join(f"{arm} {one.setting} = {one.value}" for arm, one in self.plan.settings.items())
            lines.append(f"Equal {budget.equal}, those of {budget.to}; solved for: {changed}.")
        return [*lines, *self.study.notes, *(f"Diverged: {one}" for one in self.diverged()), *self.notes()]

    def text(self) -> str:
        """The report as `firth reproduce` prints it."""
        lines = [*self.lead(), "", *self.table().lines()]
        if told := [f"{name}: {arm.about}" for name, arm in self.plan.arms.items() if arm.about]:
            lines += ["", *told]
        full = self._at_full_scale()
        for n, (claim, one) in enumerate(zip(self.study.claim, self.verdicts(), strict=True)):
            lines += ["", f"{one.text()}: {claim.says}", f"    {claim.check}"]
            lines += [f"    published: {claim.published}"] if claim.published else []
            lines += [f"    at full scale: {full[n].text()}"] if full else []
        lines += ["", f"Full scale: {self.recorded.made}."] if self.recorded is not None and full else []
        return "\n".join(lines)

    def _at_full_scale(self) -> list[ClaimVerdict]:
        return [] if self.recorded is None or self.scale == "full" else self.recorded.verdicts()

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "study": self.name,
            "source": self.study.source,
            "scale": self.scale,
            "seeds": self.plan.seeds,
            "made": self.made(),
            "arms": {arm: {measure: self._cell_facts(arm, measure) for measure in self.study.measure} for arm in self.plan.arms},
            "solved": {arm: {one.setting: one.value} for arm, one in self.plan.settings.items()},
            "claims": [
                {"says": claim.says, "check": claim.check, "published": claim.published}
                | {"held": one.held, "margin": one.margin, "error": one.error}
                for claim, one in zip(self.study.claim, self.verdicts(), strict=True)
            ],
            "diverged": self.diverged(),
        }

    def _cell_facts(self, arm: str, measure: str) -> dict[str, Any]:
        cell = self.cell(arm, measure)
        of_seeds = self.values(arm, measure)
        return {"mean": cell.mean, "sd": cell.deviation, "values": of_seeds, "published": cell.published}

    def csv(self) -> str:
        """One line for each arm, seed and measure."""
        written = io.StringIO()
        lines = csv.writer(written, lineterminator="\n")
        lines.writerow(("arm", "seed", "measure", "value"))
        for job in self.plan.jobs:
            for measure, value in self.results[job.folder].measures.items():
                lines.writerow((job.arm, job.seed, measure, "" if value is None else value))
        return written.getvalue()

    def latex(self) -> str:
        """The table for a paper; it needs the package booktabs."""
        return latex_table(self.table())

    def figures(self) -> list[tuple[str, Figure]]:
        """The figures that the study asks for, with their titles; by default bars of every measure, and the losses."""
        return drawn_figures(self)

    def sections(self) -> list[Section]:
        lead = " ".join(self.lead())
        drawn = [Section(title, "", Table((), []), [figure]) for title, figure in self.figures()]
        claims = [Section("Claims", "", self.claims())] if self.study.claim else []
        full = self.recorded
        ours = [] if full is None or self.scale == "full" else [Section("At full scale", full.made + ".", full.table())]
        return [Section("Results", lead, self.table()), Section("Models", "", self.models()), *claims, *ours, *drawn]

    def save(self, path: str | PathLike[str]) -> list[Path]:
        """Write the page, or its figures and tables in the format of the suffix."""
        return save_sections(path, self.name, self.sections(), "Made by firth reproduce.")

    def __repr__(self) -> str:
        held = [one.held for one in self.verdicts()]
        return f"<StudyReport: {self.name}, {held.count(True)} of {len(held)} claims held; .text() prints it>"
