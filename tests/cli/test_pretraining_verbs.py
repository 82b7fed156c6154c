"""firth train, evaluate and complete with runs of masked tokens and of spans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Firth

from firth.api import compose, train_recipe

MODEL = {"kind": "transformer", "width": 8, "depth": 1, "heads": 2}


def made(folder: Path, objective: str, family: str) -> Path:
    table = {
        "data": {"text": "the cat sat on the mat .\n" * 30, "valid": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"family": family} | MODEL,
        "objective": {"kind": objective},
        "training": {"steps": 2, "batch": 2, "context": 8, "device": "cpu"},
    }
    return train_recipe(compose(table), folder / objective).path


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("verbs"), "masked", "encoder")


def test_evaluate_prints_what_was_found_again(firth: Firth, masked: Path) -> None:
    told = json.loads(firth("evaluate", masked, "--json").out)
    assert told.keys() == {"loss", "perplexity", "accuracy", "tokens", "split"}
    lines = firth("evaluate", masked).out.splitlines()
    assert [line[:20].strip() for line in lines] == ["text", "tokens", "loss", "perplexity", "accuracy"]
    assert lines[1].endswith(f"{told['tokens']:,} masked")
    assert lines[4].endswith(f"{told['accuracy']:.4f}")


def test_evaluate_prints_how_probable_the_spans_are(firth: Firth, tmp_path: Path) -> None:
    run = made(tmp_path, "span-corruption", "seq2seq")
    told = json.loads(firth("evaluate", run, "--json").out)
    lines = firth("evaluate", run).out.splitlines()
    assert lines[1:] == [
        f"{'tokens':<20}{told['tokens']:,} to generate: the spans and their sentinels",
        f"{'loss':<20}{told['loss']:.4f} nats per token",
        f"{'perplexity':<20}{told['perplexity']:.4f}",
    ]


def test_complete_fills_each_blank(firth: Firth, masked: Path) -> None:
    told = json.loads(firth("complete", masked, "the __ sat on __ mat", "--proposals", "2", "--json").out)
    assert [len(blank) for blank in told] == [2, 2]
    lines = firth("complete", masked, "the __ sat on __ mat", "--proposals", "2").out.splitlines()
    assert [lines[0], lines[3]] == ["blank 1", "blank 2"]
    assert lines[1].split() == [f"{told[0][0]['probability']:.2%}", told[0][0]["filler"]]
    chosen = firth("complete", masked, "the __ sat", "--candidates", "cat,mat").out.splitlines()
    assert {line.split()[1] for line in chosen} == {"cat", "mat"}
