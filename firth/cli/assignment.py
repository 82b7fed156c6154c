"""firth assignment make | grade"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, app, complain, print_json, verb
from firth.cli.suggestions import Verbs
from firth.errors import ConfigError
from firth.files import is_folder, write_text

if TYPE_CHECKING:
    from firth.experiments.assignments.assignment import Assignment
    from firth.experiments.assignments.make import Form, MadeAssignment
    from firth.experiments.assignments.report import GradeReport

group = typer.Typer(cls=Verbs, rich_markup_mode=None, help="Homework for a class: make it, grade it, rank it.")
app.add_typer(group, name="assignment")


@verb(within=group)
def make(
    name: Annotated[str, typer.Argument(help="Name of the assignment, or a TOML file that describes it.", show_default=False)],
    exercises: Annotated[
        str | None, typer.Option(help="Exercises with commas between them, see `firth exercise`.", show_default=False)
    ] = None,
    points: Annotated[
        str | None, typer.Option(help="Points of each exercise, such as 2,1. [default: 1 each]", show_default=False)
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(help="The hidden inputs follow from it; never hand it out. [default: a random one]", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write. [default: the name]", show_default=False)] = None,
    form: Annotated[str, typer.Option(help="What students write in: py, notebook, nbgrader or otter.")] = "py",
    torch: Annotated[bool, typer.Option("--torch", help="Use torch tensors instead of NumPy arrays.")] = False,
    as_json: Json = False,
) -> None:
    """Write the folder to hand out, and the folder for grading."""
    from firth.experiments.assignments.make import make_assignment

    described, beside = _described(name, exercises, points)
    chosen = secrets.token_hex(16) if secret is None else secret
    made = make_assignment(described, chosen, out or Path(described.name), cast("Form", form), torch, beside)
    if as_json:
        print_json(made.facts())
        return
    _print_made(made)


def _described(name: str, exercises: str | None, points: str | None) -> tuple[Assignment, Path]:
    """The assignment, and the folder of its file."""
    from firth.experiments.assignments.assignment import assignment_of, read_assignment

    if name.endswith(".toml"):
        for option, value in (("--exercises", exercises), ("--points", points)):
            if value is not None:
                raise ConfigError(f"{option} is given, but {name} lists the exercises. Remove one of them.")
        return read_assignment(Path(name)), Path(name).parent
    if exercises is None:
        raise ConfigError(f'{name} has no exercises. Add --exercises, such as "attention,multi_head", or give a TOML file.')
    return assignment_of(name, exercises, points), Path()


def _print_made(made: MadeAssignment) -> None:
    print(f"{made.student}: hand this out")
    print(f"{made.grader}: keep this; it has the keys of the hidden inputs")
    print(f"Grade with: firth assignment grade SUBMISSIONS --grader {made.grader}")


@verb(within=group)
def grade(
    submissions: Annotated[Path, typer.Argument(help="Folder with one file or folder per student.", show_default=False)],
    grader: Annotated[
        Path | None,
        typer.Option(help="The grader's folder. [default: grader, here or beside SUBMISSIONS]", show_default=False),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print one row per student, and the leaderboard.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Also write the grades to this csv file.", show_default=False)] = None,
    gradescope: Annotated[
        Path | None,
        typer.Option(
            help="SUBMISSIONS is that of one student; write Gradescope's results.json to this file.", show_default=False
        ),
    ] = None,
    show_inputs: Annotated[bool, typer.Option("--show-inputs", help="Show the hidden inputs that failed.")] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Submissions at a time. [default: one per core, at most 8]", min=1, show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Grade all submissions with hidden inputs.

    Each function runs in a process of its own, with limits. Entries of a competition are trained and measured."""
    from firth.experiments.assignments.grade import grade_folder
    from firth.progress.display import Display

    if csv is not None and csv.suffix.lower() != ".csv":
        raise ConfigError(f"--csv writes csv, not {csv.name}. Choose a name that ends in .csv.")
    if table and as_json:
        raise ConfigError("give one of --table and --json")
    if table and show_inputs and gradescope is None:
        raise ConfigError("--show-inputs has no effect on a --table. Remove one of them.")
    folder = _grader(submissions, grader)
    with Display() as display:
        report = grade_folder(
            submissions,
            folder,
            alone=gradescope is not None,
            show_inputs=show_inputs,
            jobs=jobs,
            progress=display.work,
            notice=lambda message: complain(f"note: {message}"),
        )
    if csv is not None:
        write_text(csv, report.csv())
    if gradescope is not None:
        _write_results(report, gradescope)
    if as_json:
        print_json(report.facts())
    else:
        print(report.tables() if table else report.text())


def _grader(submissions: Path, grader: Path | None) -> Path:
    places = [grader] if grader is not None else [Path("grader"), submissions.absolute().parent / "grader"]
    for place in places:
        if is_folder(place):
            return place
    raise ConfigError(f"there is no folder {places[0]}. Give --grader the folder that `firth assignment make` wrote for you.")


def _write_results(report: GradeReport, path: Path) -> None:
    import json

    from firth.experiments.assignments.gradescope import results

    entry = report.entries[0] if report.entries else None
    write_text(path, json.dumps(results(report.grades[0], entry, report.show_inputs), indent=2) + "\n")
