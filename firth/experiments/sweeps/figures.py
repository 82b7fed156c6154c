"""The figures of a sweep, drawn by optuna.visualization, each with a table of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna import visualization
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.study import Study
from optuna.trial import TrialState

from firth.figures.figure import COLOURS, Figure, Number, Table, lay_out

if TYPE_CHECKING:
    from firth.experiments.sweeps.report import SweepReport

_MARGIN = (60, 20, 20, 60)


def importances(study: Study) -> dict[str, float]:
    """The importance of each setting, the greatest first; none if they cannot be told apart."""
    values = {one.value for one in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))}
    if len(values) < 2:
        return {}
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {name: float(share) for name, share in found.items()}


def drawn(report: SweepReport) -> list[tuple[str, str, Figure]]:
    """Title, explanation and figure of what there is to draw."""
    if report.best is None:
        return []
    figures = [
        ("Optimisation history", "Each finished trial, and the best so far.", _history(report)),
        ("Parallel coordinates", "One line for each finished trial; the darker, the better.", _parallel(report)),
    ]
    if shares := report.importances:
        lead = "The share of each setting in the variance of the metric (fANOVA), between the trials of this sweep."
        figures.insert(1, ("Importance of the settings", lead, _importance(report, shares)))
    return figures


def _history(report: SweepReport) -> Figure:
    rows, best = [], None
    for one in report.trials:
        if one.value is not None:
            best = one.value if best is None else max(best, one.value) if report.higher else min(best, one.value)
            rows.append((Number(one.number), Number(one.value, ".4f"), Number(best, ".4f")))
    plot = visualization.plot_optimization_history(report.study, target_name=report.metric)
    return _figure(plot, Table(("trial", report.metric, "best so far"), rows))


def _importance(report: SweepReport, shares: dict[str, float]) -> Figure:
    plot = visualization.plot_param_importances(
        report.study, evaluator=FanovaImportanceEvaluator(seed=0), target_name=report.metric
    )
    return _figure(plot, Table(("setting", "importance"), [(name, Number(share, ".3f")) for name, share in shares.items()]))


def _parallel(report: SweepReport) -> Figure:
    plot = visualization.plot_parallel_coordinate(report.study, target_name=report.metric)
    return _figure(plot, report.table())


def _figure(plot: Any, table: Table) -> Figure:
    lay_out(plot, _MARGIN, height=420, title=None, colorway=COLOURS)
    return Figure(plot, table)
