"""firth exercise"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.errors import ConfigError


@verb()
def exercise(
    name: Annotated[
        str | None, typer.Argument(help="Exercise to begin. [default: list all exercises]", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. [default: print it]", show_default=False)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file in --out.")] = False,
    torch: Annotated[bool, typer.Option("--torch", help="Use torch tensors instead of NumPy arrays.")] = False,
    as_json: Json = False,
) -> None:
    """List the exercises, or write the stub of one.

    A stub has the signature, equation and shapes of a function to write, with an example. `firth check` checks it."""
    if name is None:
        _list(out, overwrite, torch, as_json)
        return
    from firth.experiments.exercises.catalog import find_exercise
    from firth.experiments.exercises.stub import exercise_stub, write_stub

    if overwrite and out is None:
        raise ConfigError("--overwrite has no effect without --out. Add --out, or remove it.")
    text, found = exercise_stub(name, torch), find_exercise(name)
    if out is not None:
        write_stub(out, text, overwrite)
    if as_json:
        facts = {
            "exercise": name,
            "equation": found.equation,
            "parameters": dict(found.parameters),
            "returns": dict(found.returns),
        }
        print_json({**facts, "stub": text, "file": None if out is None else str(out)})
    elif out is None:
        print(text, end="")
    else:
        print(f"{out}: {found.about}. Check it with: firth check {out}")


def _list(out: Path | None, overwrite: bool, torch: bool, as_json: bool) -> None:
    for option, given in (("--out", out is not None), ("--overwrite", overwrite), ("--torch", torch)):
        if given:
            raise ConfigError(f"{option} needs the name of an exercise. `firth exercise` lists them.")
    from firth.experiments.exercises.catalog import EXERCISES, NAMES

    if as_json:
        print_json([{"exercise": one.name, "about": one.about, "equation": one.equation} for one in EXERCISES])
        return
    wide = max(map(len, NAMES))
    for one in EXERCISES:
        print(f"{one.name:<{wide}}  {one.about}")
