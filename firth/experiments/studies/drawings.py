"""The figures of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firth.errors import ConfigError
from firth.experiments.studies.study import Drawing
from firth.experiments.studies.tables import MeasuredCell, heading
from firth.figures.figure import Figure
from firth.figures.lengths import LengthBucket, score_by_length
from firth.figures.studies import Spread, bars, one_against_another
from firth.figures.training import AGAINST, Against, training_curves
from firth.training import log
from firth.training.folder import RunFolder

if TYPE_CHECKING:
    from firth.experiments.studies.report import StudyReport


def drawn_figures(report: StudyReport) -> list[tuple[str, Figure]]:
    """The figures that the study asks for, with their titles; by default bars of every measure, and the losses."""
    drawings = report.study.figure or (
        *(Drawing(kind="bars", measure=measure) for measure in report.study.measure),
        Drawing(kind="curves"),
    )
    return [(drawing.title or _title(drawing), _figure(report, drawing)) for drawing in drawings]


def _figure(report: StudyReport, drawing: Drawing) -> Figure:
    trained = report.arms()
    arms = [arm for arm in drawing.arms or trained if arm in trained]
    match drawing.kind:
        case "bars":
            y = _measure(report, drawing.measure)
            return bars({arm: _spread(report.cell(arm, y)) for arm in arms}, _axis(report, y))
        case "against":
            y, x = _measure(report, drawing.measure), _measure(report, drawing.against)
            points = {arm: (_spread(report.cell(arm, x)), _spread(report.cell(arm, y))) for arm in arms}
            return one_against_another(points, _axis(report, x), _axis(report, y))
        case "lengths":
            buckets = {arm: _buckets(report, arm) for arm in arms}
            return score_by_length({arm: of for arm, of in buckets.items() if of}, _length_measure(drawing.measure))
        case "curves":
            first = {job.arm: job for job in reversed(report.plan.jobs)}
            logs = {arm: log.read(RunFolder(first[arm].folder).log) for arm in arms}
            return training_curves(logs, "loss", _against(drawing.against or "tokens"))


def _measure(report: StudyReport, name: str | None) -> str:
    if name is None or name not in report.study.measure:
        raise ConfigError(f"a figure needs a measure of the study; given {name}")
    return name


def _axis(report: StudyReport, measure: str) -> str:
    return heading(measure, report.study.measure[measure])


def _title(drawing: Drawing) -> str:
    return "Loss while training" if drawing.kind == "curves" else (drawing.measure or drawing.kind).replace("_", " ").capitalize()


def _spread(cell: MeasuredCell) -> Spread:
    return Spread(cell.mean, cell.deviation, cell.digits)


def _buckets(report: StudyReport, arm: str) -> list[Any]:
    """The scores by length of the first seed."""
    first = next(job for job in report.plan.jobs if job.arm == arm)
    return [LengthBucket(**one) for one in report.results[first.folder].lengths]


def _against(name: str) -> Against:
    for known in AGAINST:
        if name == known:
            return known
    raise ConfigError(f'a figure draws curves against "{name}"; expected one of {", ".join(AGAINST)}')


def _length_measure(name: str | None) -> Any:
    if name not in (None, "bleu", "exact"):
        raise ConfigError(f'a figure draws "{name}" by length; expected "bleu" or "exact"')
    return name or "bleu"
