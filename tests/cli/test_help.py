"""Help texts: whole in 80 columns, and each default once."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from shell import Firth, firth

import firth.cli.verbs
from firth.cli.app import app

__all__ = ["firth"]

PROGRAM: Any = typer.main.get_command(app)
GROUPS = {name: verb for name, verb in PROGRAM.commands.items() if hasattr(verb, "commands")}
VERBS = {name: verb for name, verb in PROGRAM.commands.items() if name not in GROUPS}
VERBS |= {f"{group} {name}": verb for group, within in GROUPS.items() for name, verb in within.commands.items()}


def listed(firth: Firth, *path: str) -> dict[str, str]:
    """Verb → its one-line help, as `firth … --help` prints it."""
    lines = firth(*path, "--help").out.partition("Commands:\n")[2].splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


@pytest.mark.parametrize("verb", [*VERBS, *GROUPS])
def test_a_one_line_help_is_whole_in_80_columns(verb: str, firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    *group, name = verb.split()
    shown = listed(firth, *group)[name]
    assert not shown.endswith("...")
    assert shown[:1].isupper()


@pytest.mark.parametrize("verb", VERBS)
def test_a_default_is_printed_once(verb: str, firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # an option on one line
    for line in firth(*verb.split(), "--help").out.splitlines():
        assert line.count("default:") <= 1, line
