"""`--model.depth=6` and `--model.depth 6`: what typer does not know is a setting of the recipe."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from firth.errors import ConfigError

Context = typer.Context


def settings(arguments: Sequence[str]) -> list[str]:
    """The extra arguments of a verb as assignments `a.b=value`."""
    found: list[str] = []
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            found.append(f"{waiting}={argument}")
            waiting = None
        elif not argument.startswith("--") or "." not in argument.partition("=")[0]:
            raise ConfigError(
                f'"{argument}" is not understood here; settings look like --model.depth=6, `firth train --help` shows the rest'
            )
        elif "=" in argument:
            found.append(argument.removeprefix("--"))
        else:
            waiting = argument.removeprefix("--")
    if waiting is not None:
        raise ConfigError(f'"--{waiting}" has no value; write --{waiting}=value')
    return found
