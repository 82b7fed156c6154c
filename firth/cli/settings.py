"""Recipe settings on the command line: `--model.depth=6` or `--model.depth 6`."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from firth.errors import ConfigError

Context = typer.Context


def settings(arguments: Sequence[str]) -> list[str]:
    """The arguments that typer does not know, as assignments `a.b=value`."""
    assignments: list[str] = []
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            assignments.append(f"{waiting}={argument}")
            waiting = None
        elif not argument.startswith("--") or "." not in argument.partition("=")[0]:
            raise ConfigError(f'unknown argument "{argument}"; {_meant(argument)} (see `firth train --help`)')
        elif "=" in argument:
            assignments.append(argument.removeprefix("--"))
        else:
            waiting = argument.removeprefix("--")
    if waiting is not None:
        raise ConfigError(f'"--{waiting}" has no value; write --{waiting}=value')
    return assignments


def _meant(argument: str) -> str:
    """A suggestion: the settings with this last name."""
    name, equals, value = argument.lstrip("-").partition("=")
    tables = [table for table, names in _names().items() if name.replace("-", "_") in names] if argument.startswith("-") else []
    if not tables:
        return "settings look like --model.depth=6"
    written = f"{name.replace('-', '_')}{equals}{value}" if equals else f"{name.replace('-', '_')}=…"
    return f"did you mean {' or '.join(f'--{table}.{written}' for table in tables[:3])}?"


def _names() -> dict[str, set[str]]:
    """The settings of each table of a recipe, whatever the task and the model."""
    from typing import get_args

    from firth.decoding.config import DecodingConfig
    from firth.models import ModelConfig
    from firth.tasks import TASKS, names_of
    from firth.text.config import TokenizerConfig
    from firth.training.config import TrainingConfig

    kinds = {
        "training": [TrainingConfig],
        "model": list(get_args(ModelConfig)),
        "data": [task.Data for task in TASKS],
        "tokenizer": [TokenizerConfig],
        "objective": [task.Objective for task in TASKS],
        "decoding": [DecodingConfig],
    }
    return {table: {name for config in configs for name in names_of(config)} for table, configs in kinds.items()}
