"""firth check"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def check(
    file: Annotated[Path, typer.Argument(help="Python file with your functions.")],
    exercise: Annotated[
        str | None,
        typer.Argument(help="Exercise to check. [default: every function named like an exercise]", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Stop a function after this many seconds.", min=0.1, max=3600)] = 10.0,
    as_json: Json = False,
) -> None:
    """Check functions of your own, and name the mistakes.

    Each runs in a separate process, with limits. Exits with code 1 if one of them is wrong."""
    from firth.experiments.exercises.check_file import check_file

    verdicts = check_file(file, exercise, seconds)
    if as_json:
        print_json([one.facts() for one in verdicts])
    else:
        print("\n".join(one.text() for one in verdicts))
    if not all(one.passed for one in verdicts):
        raise typer.Exit(1)
