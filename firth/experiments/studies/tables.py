"""The tables of a study: arms × measures with the published values, and its claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from firth.experiments.studies.claims import ClaimVerdict
from firth.experiments.studies.study import Arm, Measure, Study
from firth.figures.figure import Table

_INSTEAD = {"vectors": "word vectors", "counts": "word vectors", "dynamics": "attention dynamics"}  # of a recipe


@dataclass(frozen=True)
class MeasuredCell:
    """One measure of one arm: its mean and standard deviation over seeds."""

    mean: float | None  # None if no seed has it
    deviation: float | None  # with n − 1 in the denominator; None with one seed
    published: float | None = None
    digits: int = 3
    without: str = ""  # which seeds lack it: "1 of 3 without"
    missing: str = "–"  # shown if no seed has it

    @classmethod
    def over(cls, values: Iterable[float | None], published: float | None, measure: Measure) -> MeasuredCell:
        """The cell of these values, one for each seed."""
        given = list(values)
        known = [value for value in given if value is not None]
        return cls(
            mean=float(np.mean(known)) if known else None,
            deviation=float(np.std(known, ddof=1)) if len(known) > 1 else None,
            published=published,
            digits=measure.digits,
            without=f"{len(given) - len(known)} of {len(given)} {measure.without}" if len(known) < len(given) else "",
            missing=measure.missing,
        )

    def text(self) -> str:
        """ "0.921 ± 0.013 (published 0.958)" """
        if self.mean is None:
            return self.missing
        shown = f"{self.mean:,.{self.digits}f}"
        shown += "" if self.deviation is None else f" ± {self.deviation:,.{self.digits}f}"
        shown += f", {self.without}" if self.without else ""
        return shown if self.published is None else f"{shown} (published {self.published:g})"


class StudyTables:
    """A result of a study: what its runs gave, now or when it was recorded."""

    study: Study

    def arms(self) -> Mapping[str, Arm]:
        """The arms that were trained."""
        raise NotImplementedError

    def cell(self, arm: str, measure: str) -> MeasuredCell:
        raise NotImplementedError

    def verdicts(self) -> list[ClaimVerdict]:
        """One for each claim of the study."""
        raise NotImplementedError

    def table(self) -> Table:
        """Arms × measures, each as mean ± standard deviation over seeds."""
        measures = self.study.measure
        rows = [(arm, *(self.cell(arm, measure).text() for measure in measures)) for arm in self.arms()]
        return Table(("", *map(heading, measures, measures.values())), rows)

    def claims(self) -> Table:
        rows = [
            (claim.says, claim.published or "", claim.check, one.text())
            for claim, one in zip(self.study.claim, self.verdicts(), strict=True)
        ]
        return Table(("claim", "published", "checked as", "here"), rows)

    def models(self) -> Table:
        """What each arm is, and the recipe that it starts from."""
        return Table(
            ("", "model", "recipe"), [(name, arm.about, arm.recipe or _INSTEAD[arm.base]) for name, arm in self.arms().items()]
        )

    def _repr_html_(self) -> str:
        return self.table().html() + self.claims().html()


def heading(name: str, measure: Measure) -> str:
    return measure.about or name.replace("_", " ")
