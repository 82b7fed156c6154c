"""What a study found: a table of means and standard deviations, its claims, and figures."""

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

from firth.errors import ConfigError
from firth.experiments.studies.claims import ClaimVerdict, Values, verdict
from firth.experiments.studies.plan import StudyPlan
from firth.experiments.studies.study import Drawing, Measure, Study
from firth.experiments.studies.trial import RunResult
from firth.figures.figure import Figure, Table
from firth.figures.lengths import LengthBucket, score_by_length
from firth.figures.page import Section, save_sections
from firth.figures.studies import Spread, bars, one_against_another
from firth.figures.training import AGAINST, Against, training_curves
from firth.training import log
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class MeasuredCell:
    """One measure of one arm over its seeds."""

    values: tuple[float | None, ...]
    published: float | None
    digits: int

    @property
    def measured(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.measured)) if self.measured else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds, with n − 1 in the denominator."""
        return float(np.std(self.measured, ddof=1)) if len(self.measured) > 1 else None

    def text(self) -> str:
        """ "0.921 ± 0.013 (published 0.958)" """
        if self.mean is None:
            return "–"
        shown = f"{self.mean:,.{self.digits}f}"
        shown += "" if self.deviation is None else f" ± {self.deviation:,.{self.digits}f}"
        missing = len(self.values) - len(self.measured)
        shown += f", {missing} of {len(self.values)} without" if missing else ""
        return shown if self.published is None else f"{shown} (published {self.published:g})"


@dataclass(frozen=True, repr=False)
class StudyReport:
    """The result of a study. `.text()` prints it, `.facts()` is plain data, `.save(path)` writes a page with all figures."""

    name: str  # of the study
    study: Study  # its file
    scale: str  # how large the runs are
    plan: StudyPlan  # the runs with their recipes
    results: Mapping[Path, RunResult]  # of each run, by its folder

    def cell(self, arm: str, measure: str) -> MeasuredCell:
        values = [self.results[job.folder].measures[measure] for job in self.plan.jobs if job.arm == arm]
        chosen = self.study.measure[measure]
        return MeasuredCell(tuple(values), self.plan.arms[arm].published.get(measure), chosen.digits)

    def _values(self) -> dict[str, dict[str, Values]]:
        """nan for what was not measured, and for arms that this scale leaves out."""
        missing = np.full(self.plan.seeds, math.nan)
        return {
            measure: {
                arm: np.array([math.nan if value is None else value for value in self.cell(arm, measure).values])
                if arm in self.plan.arms
                else missing
                for arm in self.study.arms
            }
            for measure in self.study.measure
        }

    def verdicts(self) -> list[ClaimVerdict]:
        """One for each claim of the study."""
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

    def table(self) -> Table:
        """Arms × measures, each as mean ± standard deviation over seeds."""
        rows = [(arm, *(self.cell(arm, measure).text() for measure in self.study.measure)) for arm in self.plan.arms]
        return Table(("", *map(_heading, self.study.measure.items())), rows)

    def claims(self) -> Table:
        rows = [
            (claim.says, claim.published or "", claim.check, one.text())
            for claim, one in zip(self.study.claim, self.verdicts(), strict=True)
        ]
        return Table(("claim", "published", "checked as", "here"), rows)

    def models(self) -> Table:
        """What each arm is, and the recipe that it starts from."""
        return Table(("", "model", "recipe"), [(name, arm.about, arm.recipe) for name, arm in self.plan.arms.items()])

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
        for claim, one in zip(self.study.claim, self.verdicts(), strict=True):
            lines += ["", f"{one.text()}: {claim.says}", f"    {claim.check}"]
            lines += [f"    published: {claim.published}"] if claim.published else []
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        cells = {arm: {measure: self.cell(arm, measure) for measure in self.study.measure} for arm in self.plan.arms}
        return {
            "study": self.name,
            "source": self.study.source,
            "scale": self.scale,
            "seeds": self.plan.seeds,
            "arms": {
                arm: {
                    measure: {"mean": one.mean, "sd": one.deviation, "values": one.values, "published": one.published}
                    for measure, one in of.items()
                }
                for arm, of in cells.items()
            },
            "solved": {arm: {one.setting: one.value} for arm, one in self.plan.settings.items()},
            "claims": [
                {"says": claim.says, "check": claim.check, "published": claim.published}
                | {"held": one.held, "margin": one.margin, "error": one.error}
                for claim, one in zip(self.study.claim, self.verdicts(), strict=True)
            ],
            "diverged": self.diverged(),
        }

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
        drawings = self.study.figure or (
            *(Drawing(kind="bars", measure=measure) for measure in self.study.measure),
            Drawing(kind="curves"),
        )
        return [(drawing.title or _title(drawing), self._figure(drawing)) for drawing in drawings]

    def _figure(self, drawing: Drawing) -> Figure:
        arms = [arm for arm in drawing.arms or self.plan.arms if arm in self.plan.arms]
        match drawing.kind:
            case "bars":
                measure = self._drawn(drawing.measure)
                return bars({arm: _spread(self.cell(arm, measure)) for arm in arms}, _heading((measure, self._of(measure))))
            case "against":
                y, x = self._drawn(drawing.measure), self._drawn(drawing.against)
                points = {arm: (_spread(self.cell(arm, x)), _spread(self.cell(arm, y))) for arm in arms}
                return one_against_another(points, _heading((x, self._of(x))), _heading((y, self._of(y))))
            case "lengths":
                buckets = {arm: self._buckets(arm) for arm in arms}
                return score_by_length({arm: of for arm, of in buckets.items() if of}, _length_measure(drawing.measure))
            case "curves":
                against = _against(drawing.against or "tokens")
                logs = {
                    job.arm: log.read(RunFolder(job.folder).log) for job in self.plan.jobs if job.arm in arms and not job.seed
                }
                return training_curves(logs, "loss", against)

    def _of(self, measure: str) -> Measure:
        return self.study.measure[measure]

    def _drawn(self, measure: str | None) -> str:
        if measure is None or measure not in self.study.measure:
            raise ConfigError(f"a figure needs a measure of the study; given {measure}")
        return measure

    def _buckets(self, arm: str) -> list[Any]:
        """The scores by length of the first seed."""
        first = next(job for job in self.plan.jobs if job.arm == arm)
        return [LengthBucket(**one) for one in self.results[first.folder].lengths]

    def sections(self) -> list[Section]:
        lead = " ".join(self.lead())
        drawn = [Section(title, "", Table((), []), [figure]) for title, figure in self.figures()]
        claims = [Section("Claims", "", self.claims())] if self.study.claim else []
        return [Section("Results", lead, self.table()), Section("Models", "", self.models()), *claims, *drawn]

    def save(self, path: str | PathLike[str]) -> list[Path]:
        """Write the page, or its figures and tables in the format of the suffix."""
        return save_sections(path, self.name, self.sections(), "Made by firth reproduce.")

    def __repr__(self) -> str:
        held = [one.held for one in self.verdicts()]
        return f"<StudyReport: {self.name}, {held.count(True)} of {len(held)} claims held; .text() prints it>"

    def _repr_html_(self) -> str:
        return self.table().html() + self.claims().html()


def _heading(of: tuple[str, Measure]) -> str:
    name, measure = of
    return measure.about or name.replace("_", " ")


def _title(drawing: Drawing) -> str:
    return "Loss while training" if drawing.kind == "curves" else (drawing.measure or drawing.kind).replace("_", " ").capitalize()


def _spread(cell: MeasuredCell) -> Spread:
    return Spread(cell.mean, cell.deviation, cell.digits)


def _against(name: str) -> Against:
    for known in AGAINST:
        if name == known:
            return known
    raise ConfigError(f'a figure draws curves against "{name}"; expected one of {", ".join(AGAINST)}')


def _length_measure(name: str | None) -> Any:
    if name not in (None, "bleu", "exact"):
        raise ConfigError(f'a figure draws "{name}" by length; expected "bleu" or "exact"')
    return name or "bleu"


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"} | {"±": r"$\pm$", "–": "--", "\\": r"\textbackslash{}"}
)


def latex_table(table: Table) -> str:
    """A table for a paper, with booktabs."""
    columns = "l" + "r" * (len(table.headings) - 1)
    head, *body = (" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (table.headings, *table.rows))
    lines = (rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}")
    return "\n".join(lines) + "\n"
