"""A way to call firth as the shell does, without the two seconds that a process needs to import torch."""

from __future__ import annotations

import functools
import io
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import typer


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Firth = Callable[..., Answer]
_command = functools.cache(typer.main.get_command)  # building all verbs takes a tenth of a second


@pytest.fixture
def firth(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Firth:
    """firth("generate", run, "h", stdin=b"…"): the entry point of the command, in this process."""
    from firth.cli import main

    monkeypatch.delenv("FIRTH_DEBUG", raising=False)
    monkeypatch.setattr(typer.main, "get_command", _command)

    def call(*arguments: object, stdin: bytes = b"") -> Answer:
        capsys.readouterr()
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("default")
            patch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it; this puts it back
            patch.setattr(sys, "argv", ["firth", *map(str, arguments)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            with pytest.raises(SystemExit) as stop:
                main()
        out, err = capsys.readouterr()
        return Answer(int(stop.value.code or 0), out, err)

    return call


def assert_refused(answer: Answer, message: str, out: str = "") -> None:
    """A mistake of the user's: one line that says what is wrong, and nothing on standard output but what came before it."""
    assert (answer.code, answer.out) == (2, out), answer
    assert message in answer.err
    assert answer.err.count("\n") == 1, answer.err
    assert "internal error" not in answer.err
