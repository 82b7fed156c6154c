"""A user's mistake is one line that says what was given, what was expected and what to do; exit code 2; nothing written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from runs import TEXT, recipe_table
from shell import Answer, Firth
from tomli_w import dumps

Arguments = list[object]


def one_line(answer: Answer) -> str:
    assert answer.code == 2, answer
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("firth: ")
    assert "internal error" not in lines[0]
    return lines[0]


def snapshot(folder: Path) -> set[tuple[str, bytes | None]]:
    return {(str(path), path.read_bytes() if path.is_file() else None) for path in folder.rglob("*")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with some files, right and wrong, in which the command is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text(TEXT)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("tiny")
    (tmp_path / "latin1.txt").write_bytes("ein schöner Text\n".encode("latin1") * 50)
    (tmp_path / "good.toml").write_text(dumps(recipe_table(model="transformer", steps=2)), encoding="utf-8")
    (tmp_path / "broken.toml").write_text("[model\nkind = rnn\n")
    (tmp_path / "no-data.toml").write_text('[model]\nkind = "rnn"\n')
    (tmp_path / "no-kind.toml").write_text('[data]\ntext = "some text"\n')
    (tmp_path / "folder").mkdir()
    return tmp_path


TRAIN: Arguments = ["train", "good.toml", "--out", "run"]

MISTAKES: dict[str, tuple[Arguments, list[str]]] = {
    "missing file": ([*TRAIN, "--data.path=corpsu.txt"], ["corpsu.txt does not exist", 'Did you mean "corpus.txt"?']),
    "missing file, nothing like it": ([*TRAIN, "--data.path=zzz"], ["zzz does not exist", "There is no such file in"]),
    "missing validation file": ([*TRAIN, "--data.valid_path=nope.txt"], ["nope.txt does not exist"]),
    "no file matches": ([*TRAIN, "--data.path=*.zzz"], ["no file matches", "*.zzz"]),
    "empty file": ([*TRAIN, "--data.path=empty.txt"], ["empty.txt is empty; expected some text"]),
    "empty folder": ([*TRAIN, "--data.path=folder"], ["no text in", "expected files ending in .txt", "data.format"]),
    "undecodable bytes": ([*TRAIN, "--data.path=latin1.txt"], ["is not UTF-8", "0xf6 at offset 7", "iconv -f latin1 -t utf-8"]),
    "text shorter than one context": (
        [*TRAIN, "--data.path=short.txt", "--data.valid=0.0"],
        ["4 tokens", "training.context = 24 needs at least 25", "smaller training.context or more text"],
    ),
    "unknown key": ([*TRAIN, "--model.dept=6"], ['unknown key "model.dept"', 'Did you mean "depth"?']),
    "unknown table": ([*TRAIN, "--modle.depth=6"], ['unknown key "modle"', 'Did you mean "model"?']),
    "wrong type": ([*TRAIN, "--model.depth=deep"], ["\"model.depth\" is 'deep'; expected a whole number"]),
    "fraction for a whole number": ([*TRAIN, "--training.steps=1.5"], ['"training.steps" is 1.5; expected a whole number']),
    "unknown choice": ([*TRAIN, "--model.kind=lstn"], ["\"model.kind\" is 'lstn'; expected one of", "'lstm'"]),
    "out of range": ([*TRAIN, "--training.steps=0"], ["training.steps is 0; expected at least 1"]),
    "heads do not divide width": (
        [*TRAIN, "--model.attention.heads=5"],
        ["model.attention.heads = 5 does not divide model.width = 32; try model.attention.heads = 4"],
    ),
    "a setting without value": ([*TRAIN, "--model.depth"], ['"--model.depth" has no value; write --model.depth=value']),
    "not a setting": ([*TRAIN, "--depth=3"], ['unknown argument "--depth=3"; did you mean --model.depth=3?']),
    "unknown recipe": (["train", "hallo", "--out", "run"], ['there is no recipe "hallo". Did you mean "hello"?']),
    "unknown recipe, nothing like it": (["train", "zzz", "--out", "run"], ['no recipe "zzz". Known: chat-decoder,', "hello"]),
    "missing recipe file": (
        ["train", "my.toml", "--out", "run"],
        ["there is no file my.toml; give a TOML file or the name of a shipped recipe (see `firth recipes`)"],
    ),
    "broken TOML": (["train", "broken.toml", "--out", "run"], ["broken.toml is not valid TOML", "line 1"]),
    "recipe without text": (["train", "no-data.toml", "--out", "run"], ["Set one of data.name, data.path and data.text"]),
    "recipe without kind": (["train", "no-kind.toml", "--out", "run"], ['"model.kind" is missing; expected one of', "'rnn'"]),
    "out below a file": (["train", "good.toml", "--out", "corpus.txt/run"], ["cannot write", "Not a directory"]),
    "out is a file": (["train", "good.toml", "--out", "corpus.txt"], ["corpus.txt already exists and is not a run", "--out"]),
    "out where nothing can be": (["train", "good.toml", "--out", "/proc/nowhere/run"], ["cannot write", "choose another"]),
    "out is a folder with other things": (["train", "good.toml", "--out", "."], ["already exists and is not a run"]),
    "verify an unknown recipe": (["verify", "hallo"], ['Did you mean "hello"?']),
    "a run that is nowhere": (["generate", "nowhere", "h"], ["nowhere is not a folder; expected a run made by `firth train"]),
    "a run that is a file": (["evaluate", "corpus.txt"], ["corpus.txt is not a folder; expected a run"]),
    "a run that is another folder": (["score", "folder", "corpus.txt"], ["folder is not a run: it has no `format` file"]),
    "a table without a place": (
        ["results", "--into", "corpus.txt"],
        ["corpus.txt has no markers for the table", "<!-- /results -->"],
    ),
    "a table into nothing": (["results", "--into", "nowhere.md"], ["cannot read nowhere.md", "give a Markdown file"]),
    "no effort": (["tour", "--effort", "0"], ["--effort is 0.0; expected more than 0"]),
    "an argument left out": (["generate", "run"], ["prompt", "see `firth generate --help`"]),
    "an option left out": (["train", "good.toml"], ["--out", "see `firth train --help`"]),
    "an option of the wrong type": (["generate", "run", "h", "--tokens", "abc"], ["--tokens", "integer"]),
    "an unknown option": (["generate", "run", "h", "--beams=3"], ["--beams", "see `firth generate --help`"]),
    "an unknown verb": (["frobnicate"], ["frobnicate", "see `firth --help`"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(mistake: str, firth: Firth, place: Path) -> None:
    arguments, parts = MISTAKES[mistake]
    before = snapshot(place)
    line = one_line(firth(*arguments))
    for part in parts:
        assert part.lower() in line.lower()
    assert snapshot(place) == before


@pytest.mark.parametrize("arguments", [["train", "ptb-lstm-medium", "--out", "run"], ["verify", "needs-ptb.toml"]])
def test_a_recipe_whose_data_is_not_here_says_how_to_get_it(
    arguments: list[str], firth: Firth, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(place / "cache"))
    monkeypatch.delenv("FIRTH_DATA", raising=False)
    table = recipe_table("word") | {"data": {"name": "ptb"}, "expected": {"metric": "perplexity", "measured": 80.0}}
    (place / "needs-ptb.toml").write_text(dumps(table), encoding="utf-8")
    assert "Download it: firth data get ptb" in one_line(firth(*arguments))
    assert not (place / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["generate", "RUN", "the Ω"], ["'Ω'", "is not in the vocabulary", "Remove it, or train on text that has it"]),
        (["complete", "RUN", "the Ω __."], ["'Ω'"]),
        (["complete", "RUN", "no blank"], ["the text has 0 blanks; expected exactly one __"]),
        (["evaluate", "RUN", "--data", "odd.txt"], ["'Ω'"]),
        (["score", "RUN", "odd.txt"], ["'Ω'"]),
        (["score", "RUN", "empty.txt"], ["empty.txt is empty; expected some text"]),
        (["score", "RUN", "latin1.txt"], ["is not UTF-8", "iconv"]),
        (["score", "RUN", "corpsu.txt"], ['Did you mean "corpus.txt"?']),
        (["evaluate", "RUN", "--data", "corpsu.txt"], ['Did you mean "corpus.txt"?']),
        (["evaluate", "RUN", "--split", "test"], ["this run has no test data, only valid and train", "--data PATH"]),
        (
            ["evaluate", "RUN", "--split", "vaild"],
            ['unknown split "vaild"; choose train,', 'Did you mean "valid"?'],
        ),
        (
            ["evaluate", "RUN", "--split", "valid", "--data", "corpus.txt"],
            ["corpus.txt", '"valid"', 'the file corpus.txt and the split "valid" cannot be combined. Remove one of them'],
        ),
        (["evaluate", "RUN", "--streams", "0"], ["streams is 0; expected 1 or more"]),
        (["evaluate", "RUN", "--data", "short.txt", "--random-batches", "3"], ["4 tokens", "at least 25", "--random-batches"]),
        (["generate", "RUN", "the", "--temperature=-1"], ["temperature is -1.0; expected 0 or more"]),
        (["generate", "RUN", "the", "--top-p=2"], ["top_p is 2.0; expected 0 < top_p ≤ 1"]),
        (["generate", "RUN", "the", "--tokens=0"], ["tokens is 0; expected at least 1"]),
        (["generate", "RUN", "the", "--seed=-1"], ["seed is -1; expected 0 or more"]),
    ],
    ids=lambda value: (
        " ".join(value) if isinstance(value, list) and value[0] in ("generate", "complete", "evaluate", "score") else ""
    ),
)
def test_a_run_refuses_what_it_cannot_read(
    arguments: list[str], parts: list[str], firth: Firth, place: Path, char_run: Path
) -> None:
    (place / "odd.txt").write_text("the Ω")
    line = one_line(firth(*(char_run if argument == "RUN" else argument for argument in arguments)))
    for part in parts:
        assert part in line


def newer(run: Path) -> None:
    (run / "format").write_text("999\n")


def not_a_number(run: Path) -> None:
    (run / "format").write_text("what?\n")


def no_tokenizer(run: Path) -> None:
    (run / "tokenizer.json").unlink()


def other_tokenizer(run: Path) -> None:
    (run / "tokenizer.json").write_text("{}")


def broken_recipe(run: Path) -> None:
    (run / "recipe.toml").write_text("[model")


def no_weights(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("harm", "parts"),
    [
        (newer, ["run format 999", "upgrade firth"]),
        (not_a_number, ["'what?'", "instead of a version number"]),
        (no_tokenizer, ["tokenizer.json is missing"]),
        (other_tokenizer, ["not a tokenizer.json"]),
        (broken_recipe, ["recipe.toml is not valid TOML"]),
        (no_weights, ["has no trained weights yet", "--resume"]),
    ],
)
@pytest.mark.parametrize("verb", ["generate", "evaluate"])
def test_a_run_that_is_not_whole_says_what_is_wrong(
    harm: Callable[[Path], None], parts: list[str], verb: str, firth: Firth, char_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(char_run, run)
    harm(run)
    line = one_line(firth(verb, run, *(["the"] if verb == "generate" else [])))
    for part in parts:
        assert part in line


def test_a_newer_run_is_not_resumed(firth: Firth, place: Path, char_run: Path) -> None:
    shutil.copytree(char_run, place / "run")
    newer(place / "run")
    before = snapshot(place)
    assert "upgrade firth" in one_line(firth(*TRAIN, "--resume"))
    assert snapshot(place) == before


def test_what_is_not_foreseen_is_one_line_too(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("firth.shipped.shipped", fails)
    answer = firth("recipes")
    assert answer.code == 1
    assert answer.err.splitlines() == [
        "firth: internal error: ZeroDivisionError: of all things. This is a bug in firth; run again with --debug to see where"
    ]


def test_a_gpu_without_memory_is_no_bug(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr("firth.shipped.shipped", fails)
    answer = firth("recipes")
    assert answer.code == 1
    assert (
        answer.err
        == "firth: the GPU ran out of memory. Lower training.batch or training.context, or raise training.accumulate.\n"
    )
