"""firth reproduce"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, complain, print_json, verb
from firth.cli.save_option import checked
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.experiments.studies.runner import JobState


@verb()
def reproduce(
    study: Annotated[str | None, typer.Argument(help="A shipped study (see --list) or a TOML file.")] = None,
    scale: Annotated[str, typer.Option(help="How large the runs are: tiny, small or full.")] = "small",
    out: Annotated[Path | None, typer.Option(help="Folder for the runs. [default: studies/NAME/SCALE]")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each model. [default: the study's]", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time. [default: one for each core]", min=1)] = None,
    save: Annotated[
        Path | None, typer.Option(help="Page with all figures. [default: NAME.html in --out]", callback=checked)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped studies.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every measured value as CSV.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the table for a paper.")] = False,
    as_json: Json = False,
) -> None:
    """Repeat a comparison from the literature and check its claims.

    Trains each model of the study with several seeds, skips runs that are finished, continues those that were interrupted, and
    prints the published figures beside ours, claim by claim."""
    if as_csv + as_latex + as_json > 1:
        raise ConfigError("give one of --csv, --latex and --json")
    if listed or study is None:
        _list(study, listed, as_json)
        return
    from firth.experiments.studies.reproduce import OUT
    from firth.experiments.studies.reproduce import reproduce as repeat

    with _watching() as watch:
        report = repeat(study, scale=scale, out=out, seeds=seeds, jobs=jobs, watch=watch)
    page = save or (OUT / report.name / scale if out is None else out) / f"{report.name}.html"
    report.save(page)
    if as_json:
        print_json(report.facts())
    elif as_csv or as_latex:
        print(report.csv() if as_csv else report.latex(), end="")
    else:
        print(report.text())
        print(f"\nFigures: {page}")


def _list(study: str | None, listed: bool, as_json: bool) -> None:
    from firth.experiments.studies.study import find_study, shipped_studies

    if study is not None:
        raise ConfigError(f'--list takes no study; given "{study}"')
    if not listed:
        raise ConfigError("give a study, or --list to see those that ship with firth")
    studies = {name: find_study(name)[2] for name in shipped_studies()}
    if as_json:
        print_json([{"study": name, "summary": one.summary, "source": one.source} for name, one in studies.items()])
        return
    for name, one in studies.items():
        scales = "; ".join(f"{scale}: {size.about}" for scale, size in one.scale.items() if size.about)
        print(f"{name:<18}{one.summary}{f' ({one.source})' if one.source else ''}\n{'':<18}{scales}")


@contextmanager
def _watching() -> Iterator[Callable[[Sequence[JobState]], None]]:
    """A live table in a terminal; elsewhere a line for each run that has finished."""
    import sys

    from rich.console import Console
    from rich.live import Live

    if not sys.stderr.isatty():
        yield _Lines().show
        return
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield lambda states: live.update(_table(states))


class _Lines:
    def __init__(self) -> None:
        self.told: set[Path] | None = None

    def show(self, states: Sequence[JobState]) -> None:
        finished = [state for state in states if state.result is not None]
        if self.told is None:  # those of an earlier start
            self.told = {state.job.folder for state in finished[: len(finished)]}
            if finished:
                complain(f"{len(finished)} of {len(states)} runs are finished already")
            return
        for state in finished:
            if state.job.folder not in self.told:
                self.told.add(state.job.folder)
                complain(f"{len(self.told)}/{len(states)}  {state.job.name}: {_values(state)}")


def _table(states: Sequence[JobState]) -> Any:
    from rich.table import Table

    table = Table("run", "step", "loss", "result", box=None)
    for state in states:
        step = f"{state.step:,}/{state.job.recipe.training.steps:,}" if state.phase == "running" else state.phase
        table.add_row(state.job.name, step, "" if state.loss is None else f"{state.loss:.3f}", _values(state))
    return table


def _values(state: JobState) -> str:
    if state.result is None:
        return ""
    if state.result.diverged is not None:
        return "diverged"
    told = ((name, value, state.job.measures[name].digits) for name, value in state.result.measures.items())
    return "  ".join(f"{name} {'–' if value is None else f'{value:,.{digits}f}'}" for name, value, digits in told)
