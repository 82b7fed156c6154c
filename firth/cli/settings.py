"""Recipe settings on the command line: `--model.depth=6` or `--model.depth 6`."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from firth.errors import ConfigError

Context = typer.Context


def settings(arguments: Sequence[str]) -> list[str]:
    """The arguments that typer does not know, as assignments `a.b=value`."""
    found: list[str] = []
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            found.append(f"{waiting}={argument}")
            waiting = None
        elif not argument.startswith("--") or "." not in argument.partition("=")[0]:
            raise ConfigError(f'unknown argument "{argument}"; settings look like --model.depth=6 (see `firth train --help`)')
        elif "=" in argument:
            found.append(argument.removeprefix("--"))
        else:
            waiting = argument.removeprefix("--")
    if waiting is not None:
        raise ConfigError(f'"--{waiting}" has no value; write --{waiting}=value')
    return found
