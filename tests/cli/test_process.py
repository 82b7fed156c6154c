"""Behaviour that only a real process shows: exit codes, the two streams, a pipe that closes, and imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firth.cli import app

FIRTH = (sys.executable, "-m", "firth")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("results", "no-such-recipe"), 'firth: no shipped recipe "no-such-recipe"'),
        pytest.param(("generate", "{run}", "Ω"), "firth: the text contains 'Ω'", marks=pytest.mark.long),  # imports torch
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_2(arguments: tuple[str, ...], message: str, char_run: Path) -> None:
    given = [argument.format(run=char_run) for argument in arguments]
    done = subprocess.run([*FIRTH, *given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(message)


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    done = subprocess.run([*FIRTH, "results", "no-such-recipe", "--debug"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "firth.errors.ConfigError: no shipped recipe" in done.stderr


@pytest.mark.long
def test_a_reader_that_has_enough_is_not_an_error(char_run: Path) -> None:
    """firth generate … | head -c 5"""
    command = [*FIRTH, "generate", char_run, "the list", "--tokens", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        assert writer.stdout.read(5) == b"the l"
        writer.stdout.close()
        assert writer.stderr.read() == b""
        assert writer.wait() != 0  # it did stop, long before its 100,000 tokens


def imported(code: str, *arguments: str) -> set[str]:
    """The top-level modules in sys.modules after `code` ran."""
    report = "import atexit, sys; atexit.register(lambda: print('\\n' + ' '.join(sys.modules), file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", report + code, *arguments], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


HEAVY = {"torch", "numpy", "plotly", "tokenizers", "safetensors"}


def test_importing_firth_does_not_import_torch() -> None:
    names = imported("import firth; assert 'load' in dir(firth); firth.__version__")
    assert "firth" in names
    assert not names & HEAVY


def test_help_recipes_and_results_do_not_import_torch() -> None:
    main = "from firth.cli import main; main()"
    assert not imported(main, "--help") & HEAVY
    assert not imported(main, "train", "--help") & HEAVY
    assert not imported(main, "recipes") & HEAVY
    assert not imported(main, "results") & HEAVY


def test_notes_are_those_that_concern_the_user_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    notes = app._Notes()
    for text, category in (
        ("three words are unknown", UserWarning),
        ("three words are unknown", UserWarning),
        ("mkldnn_matmul failed, switching to BLAS gemm: frame #0 …", UserWarning),
        ("use something else", DeprecationWarning),
    ):
        notes.show(category(text), category, "file.py", 1)
    assert capsys.readouterr().err == "firth: note: three words are unknown\n"
