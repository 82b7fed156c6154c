"""firth sweep"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from firth.cli.app import Json, Latex, expect_one_form, print_report, verb
from firth.cli.cluster_options import RayAddress, SlurmSettings, slurm_settings
from firth.cli.run_table import watching_runs
from firth.cli.save_option import checked
from firth.cli.settings import settings
from firth.config import split_assignment, split_values
from firth.errors import ConfigError
from firth.experiments.sweeps import SamplerName


@verb(takes_settings=True)
def sweep(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `firth recipes`) or a TOML file.")],
    listed: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=A,B", help="Values of a setting; may be given several times.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="KEY=RANGE",
            help="Range of a setting: LOW:HIGH, LOW:HIGH:STEP, log:LOW:HIGH or int:LOW:HIGH; may be given several times.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep. [default: sweeps/NAME]")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Runs to train. [default: 20, or all combinations if there are fewer]", min=1)
    ] = None,
    sampler: Annotated[SamplerName, typer.Option(help="How settings are chosen: tpe, random, grid, qmc or gp.")] = "tpe",
    metric: Annotated[
        str | None, typer.Option(help="Validation metric to compare trials by. [default: the recipe's training.select]")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Stop trials that are worse than the median of the others.")] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the sampler.", min=0)] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Trials at a time. [default: one for each core, or one on a GPU]", min=1)
    ] = None,
    ray: RayAddress = None,
    slurm: SlurmSettings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the sweep in --out, or start it if there is none.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Page with all figures. [default: sweep.html in --out]", callback=checked)
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the trials as CSV.")] = False,
    as_latex: Latex = False,
    as_json: Json = False,
) -> None:
    """Choose settings of a recipe by validation.

    Trains the recipe with settings from the given values and ranges, several runs side by side, and ranks them by a validation
    metric; test data are never evaluated. Any other setting can be overridden for all runs: --training.steps=500"""
    expect_one_form(as_csv, as_latex, as_json)
    from firth.experiments.sweeps.sweep import sweep as search

    changes = dict(map(split_assignment, settings(context.args)))
    with watching_runs() as watch:
        report = search(
            recipe, _swept(listed or (), ranges or ()), out=out, trials=trials, sampler=sampler, metric=metric, prune=prune,
            seed=seed, jobs=jobs, ray=ray, slurm=slurm_settings(slurm), resume=resume, changes=changes, watch=watch,
            progress=False,
        )  # fmt: skip
    page = save or report.out / "sweep.html"
    report.save(page)
    print_report(report, page, as_csv=as_csv, as_latex=as_latex, as_json=as_json)
    if report.best is None:
        raise typer.Exit(1)


def _swept(listed: Sequence[str], ranges: Sequence[str]) -> dict[str, Any]:
    """The settings with their values or ranges; each may be given once."""
    given = [("--set", text) for text in listed] + [("--range", text) for text in ranges]
    swept: dict[str, Any] = {}
    for name, text in given:
        key, equals, value = text.partition("=")
        if not equals or "." not in key:
            example = "model.width=64,128" if name == "--set" else "training.rate=log:1e-4:1e-2"
            raise ConfigError(f'{name} is "{text}"; expected a setting, as in {name} {example}')
        key = key.lstrip("-")
        if key in swept:
            raise ConfigError(f"{key} is given twice. Give it one list or one range.")
        swept[key] = split_values(value) if name == "--set" else value
    return swept
