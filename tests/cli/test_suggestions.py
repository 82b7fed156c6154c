"""Suggestions for an unknown verb or setting, and calls for help."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from runs import recipe_table
from shell import Firth, assert_refused

import firth.cli.verbs  # noqa: F401 (registers the verbs)
from firth.api import compose, train_recipe
from firth.cli.app import app
from firth.cli.suggestions import _SYNONYMS

MEANT = {
    "gradient": "Did you mean 'firth inspect RUN TEXT --what flow' or 'firth compare flow'?",
    "trian": "Did you mean 'firth train'",
    "neighbours": "Did you mean 'firth vectors neighbors FILE WORD'?",
    "vectors neighbour": "Did you mean 'firth vectors neighbors'?",
    "Sentiment": "Did you mean 'firth classify RUN TEXT'?",
    "xyzzy": "No such command 'xyzzy'; see `firth --help`",
}


@pytest.mark.parametrize("given", MEANT)
def test_an_unknown_verb_names_the_one_that_is_meant(given: str, firth: Firth) -> None:
    assert_refused(firth(*given.split()), MEANT[given])


def test_every_suggested_command_is_there() -> None:
    program = typer.main.get_command(app)
    for commands in _SYNONYMS.values():
        for command in commands:
            verb, (first, *rest) = program, command.split()
            if first.startswith("--"):
                continue
            verb = verb.commands[first]  # type: ignore[attr-defined]
            if rest and rest[0].islower():
                verb = verb.commands[rest[0]]
            known = {name for parameter in verb.params for name in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= known, command


def test_help_is_a_verb_too(firth: Firth) -> None:
    for given, same in (("help", "--help"), ("help vectors train", "vectors train --help"), ("vectors help", "vectors --help")):
        answer = firth(*given.split())
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == firth(*same.split()).out
        assert answer.out.startswith("Usage: firth")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("--seed", "3"), "did you mean --training.seed=… or --decoding.seed=…?"),
        (("--batch-tokens=512",), "did you mean --training.batch_tokens=512?"),
        (("--xyzzy=1",), "settings look like --model.depth=6"),
        (("depth=6",), "settings look like --model.depth=6"),
    ],
)
def test_a_setting_without_its_table_is_named(given: tuple[str, ...], meant: str, firth: Firth, tmp_path: Path) -> None:
    answer = firth("train", "hello", "--out", tmp_path / "run", *given)
    assert (answer.code, meant in answer.err, answer.err.count("\n")) == (2, True, 1), answer.err


def test_the_last_newline_of_a_file_is_no_text_where_the_vocabulary_has_none(firth: Firth, tmp_path: Path) -> None:
    table = recipe_table(steps=2) | {"data": {"text": "hello" * 9, "valid": 0.2}}
    run = train_recipe(compose(table), tmp_path / "run").path
    for name, text in (("with", "hello\n"), ("without", "hello"), ("inside", "he\nllo\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for verb, option in (("score", ()), ("evaluate", ("--data",))):
        given = [firth(verb, run, *option, tmp_path / name) for name in ("with", "without", "inside")]
        assert [one.code for one in given] == [0, 0, 2]
        assert given[0].out.replace(str(tmp_path / "with"), "") == given[1].out.replace(str(tmp_path / "without"), "")
    assert firth("generate", run, "-", stdin=b"h\n").out == firth("generate", run, "h").out


def test_export_takes_out_and_the_old_form(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    assert firth("export", bpe_run, tmp_path / "old", "--format", "safetensors").code == 0
    assert firth("export", bpe_run, "--out", tmp_path / "new", "--format", "safetensors").code == 0
    assert [path.name for path in sorted((tmp_path / "old").iterdir())] == [p.name for p in sorted((tmp_path / "new").iterdir())]
    for given in ((), (tmp_path / "a", "--out", tmp_path / "b")):
        answer = firth("export", bpe_run, *given)
        assert (answer.code, answer.out, "--out" in answer.err) == (2, "", True)
    assert not (tmp_path / "a").exists()
