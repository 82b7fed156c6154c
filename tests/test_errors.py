"""Errors speak to whoever reads them: Python's words in Python, the command line's on the command line."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from shell import Firth
from tiny_runs import recipe_file, tiny

import firth as package
from firth.api import train_recipe
from firth.errors import ConfigError, Diverged, FirthError, Interrupted, RunError, option, setting


def test_an_option_is_named_in_the_words_of_the_reader() -> None:
    message = f"Add {option('resume=True')}, {option('random_batches')}, {option('context=24')} or {setting('model.depth', '6')}."
    error = ConfigError(message)
    assert str(error) == 'Add resume=True, random_batches, context=24 or model={"depth": 6}.'
    assert error.for_command() == "Add --resume, --random-batches, --context 24 or --model.depth=6."
    assert repr(error) == f"ConfigError({str(error)!r})"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert ConfigError(f"line 3: {error.marked}").for_command() == f"line 3: {error.for_command()}"


def test_a_message_that_is_cut_keeps_no_half_of_a_mark() -> None:
    error = FirthError("x" * 995 + option("resume=True") + "y" * 3000)
    assert not re.search("[\x02-\x04]", str(error) + error.for_command())


def test_a_run_that_exists_is_refused_in_both_languages(firth: Firth, tmp_path: Path) -> None:
    train_recipe(tiny(), tmp_path / "run")
    with pytest.raises(RunError, match="Add resume=True to continue it or overwrite=True to replace it"):
        package.train(tiny(), tmp_path / "run")
    answer = firth("train", recipe_file(tiny(), tmp_path), "--out", tmp_path / "run")
    assert answer.code == 2
    assert "Add --resume to continue it or --overwrite to replace it, or choose another --out" in answer.err
    assert firth("train", recipe_file(tiny(), tmp_path), "--out", tmp_path / "run", "--overwrite").code == 0


OWN = ("cli", "serving", "experiments")  # rooms that only the command line or a page reaches


def test_no_message_below_the_command_line_names_an_option_of_it() -> None:
    root = Path(package.__file__).parent
    naming = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.relative_to(root).parts[0] in OWN or path.name in ("errors.py", "config.py"):
            continue
        for raised in re.finditer(r"raise \w+\((.*?)\)(?: from \w+)?\n", text, re.DOTALL):
            bare = re.sub(r"(option|setting)\((?:[^()]|\([^()]*\))*\)", "", raised[1])
            if re.search(r"(?<![\w-])--[a-z]", bare) and "`" not in bare and "llama-gguf-split" not in bare:
                naming.append(f"{path.relative_to(root)}: {bare.strip()[:100]}")
    assert naming == []


@pytest.mark.parametrize(
    "error",
    [
        Interrupted("stopped; add " + option("resume=True"), 15),
        Interrupted("stopped", 2, exit_code=0),
        Diverged("nan"),
        RunError("gone"),
    ],
)
def test_errors_of_other_processes_arrive_as_they_were_raised(error: FirthError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (arrived.marked, arrived.exit_code) == (error.marked, error.exit_code)
