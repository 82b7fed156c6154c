"""firth reproduce"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, Latex, expect_one_form, print_json, print_report, verb
from firth.cli.cluster_options import RayAddress, SlurmSettings, slurm_settings
from firth.cli.run_table import watching_runs
from firth.cli.save_option import checked
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.experiments.studies.recorded import RecordedStudy
    from firth.experiments.studies.study import Study


@verb()
def reproduce(
    study: Annotated[str | None, typer.Argument(help="A shipped study (see --list) or a TOML file.")] = None,
    scale: Annotated[str, typer.Option(help="How large the runs are: tiny, small or full.")] = "small",
    out: Annotated[Path | None, typer.Option(help="Folder for the runs. [default: studies/NAME/SCALE]")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each model. [default: the study's]", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time. [default: one for each core]", min=1)] = None,
    ray: RayAddress = None,
    slurm: SlurmSettings = None,
    save: Annotated[
        Path | None, typer.Option(help="Page with all figures. [default: NAME.html in --out]", callback=checked)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped studies.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every measured value as CSV.")] = False,
    as_latex: Latex = False,
    as_json: Json = False,
) -> None:
    """Repeat a comparison from the literature and check its claims.

    Trains each model of the study with several seeds, skips runs that are finished, continues those that were interrupted, and
    prints the published figures beside ours, claim by claim."""
    expect_one_form(as_csv, as_latex, as_json)
    if listed or study is None:
        _list(study, listed, as_json)
        return
    from firth.experiments.studies.reproduce import OUT
    from firth.experiments.studies.reproduce import reproduce as repeat

    with watching_runs() as watch:
        report = repeat(study, scale=scale, out=out, seeds=seeds, jobs=jobs, ray=ray, slurm=slurm_settings(slurm), watch=watch)
    page = save or (OUT / report.name / scale if out is None else out) / f"{report.name}.html"
    report.save(page)
    print_report(report, page, as_csv=as_csv, as_latex=as_latex, as_json=as_json)


def _list(study: str | None, listed: bool, as_json: bool) -> None:
    from firth.experiments.studies.recorded import recorded
    from firth.experiments.studies.study import find_study, shipped_studies

    if study is not None:
        raise ConfigError(f'--list takes no study; given "{study}"')
    if not listed:
        raise ConfigError("give a study, or --list to see those that ship with firth")
    studies = {name: (find_study(name)[2], recorded(name)) for name in shipped_studies()}
    if as_json:
        print_json([_listed(name, *of) for name, of in studies.items()])
        return
    for name, (one, full) in studies.items():
        lines = [f"{one.summary}{f' ({one.source})' if one.source else ''}"]
        lines += ["; ".join(f"{scale}: {size.about}" for scale, size in one.scale.items() if size.about)]
        lines += ["not run at full scale yet" if full is None else full.in_short()]
        print("\n".join(f"{name if n == 0 else '':<18}{line}" for n, line in enumerate(lines)))


def _listed(name: str, study: Study, full: RecordedStudy | None) -> dict[str, Any]:
    return {"study": name, "summary": study.summary, "source": study.source, "recorded": None if full is None else full.facts}
