"""firth lesson"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.course.lesson import Form


@verb()
def lesson(
    number: Annotated[int | None, typer.Argument(help="Lesson to open. [default: list all lessons]", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write it to. [default: this folder]", show_default=False)] = None,
    form: Annotated[str, typer.Option(help="Form of the file: notebook or markdown.")] = "notebook",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """List the lessons of the course, or open one as a notebook.

    The notebook, its drawings and its texts are copied into your folder."""
    from firth.course.lesson import find_lesson, lessons, write_lesson

    if number is None:
        if out is not None or overwrite:
            raise ConfigError(f"{'--out' if out is not None else '--overwrite'} needs the number of a lesson.")
        listed = lessons()
        if as_json:
            print_json([{"lesson": one.number, "title": one.title, "about": one.about} for one in listed])
        else:
            print("\n".join(f"{one.number:>2}  {one.title}" for one in listed))
        return
    path = write_lesson(find_lesson(number), out or Path(), cast("Form", form), overwrite)
    if as_json:
        print_json({"lesson": number, "file": str(path)})
    else:
        print(
            f"{path}: lesson {number}. " + (f"Open it with: jupyter lab {path}" if form == "notebook" else "Open it in an editor")
        )
