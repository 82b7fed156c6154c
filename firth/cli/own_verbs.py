"""A verb for each ability that comes from a file of one's own, or from a package: firth VERB RUN TEXT …"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from firth.api import load
from firth.cli.app import Json, app, print_json, verb
from firth.cli.lines import answered, check_given, given
from firth.tasks.ability import ABILITIES, Ability

_BATCH = 256  # lines at once


def add() -> None:
    known = {command.name for command in app.registered_commands}
    for ability in ABILITIES:
        if ability.verb and ability.verb not in known:
            verb()(_verb(ability))


def _verb(ability: Ability) -> Callable[..., None]:
    def each_line(
        run: Annotated[Path, typer.Argument(help="Run folder.")],
        texts: Annotated[list[str] | None, typer.Argument(help="Texts. [default: the lines of standard input]")] = None,
        file: Annotated[Path | None, typer.Option(help="File with one text per line.")] = None,
        as_json: Json = False,
    ) -> None:
        check_given(texts, file)
        method: Any = getattr(load(run, kind=ability), ability.method)
        answers = answered(given(texts, file), _BATCH, method)
        if as_json:
            print_json([{"text": text, "output": _plain(output)} for text, output in answers])
            return
        for _, output in answers:
            print("" if output is None else output, flush=True)

    each_line.__name__, each_line.__doc__ = ability.verb, ability.about
    return each_line


def _plain(output: Any) -> Any:
    return dataclasses.asdict(output) if dataclasses.is_dataclass(output) and not isinstance(output, type) else output
