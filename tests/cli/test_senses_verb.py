"""firth senses: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from senses import PAIRS, write_wic
from shell import Firth, assert_refused

from firth.api import load

SENTENCES = ("the list is empty.", "a name is in the list")


def test_it_prints_both_matrices(firth: Firth, bpe_run: Path) -> None:
    answer = firth("senses", bpe_run, "list", *SENTENCES)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[:2] == ["  1  the list is empty.", "  2  a name is in the list"]
    assert lines[3].split(maxsplit=2)[:2] == ["in", "context:"]
    senses = load(bpe_run).senses("list", SENTENCES)
    assert lines[5].split() == ["1", "1.00", f"{senses.similarity[0, 1]:.2f}", "1", "1.00", "1.00"]


def test_json_has_the_layer_that_was_asked_for(firth: Firth, bpe_run: Path) -> None:
    told = json.loads(firth("senses", bpe_run, "list", *SENTENCES, "--layer", "-1", "--json").out)
    senses = load(bpe_run).senses("list", SENTENCES)
    assert told == {
        "word": "list",
        "sentences": list(SENTENCES),
        "layer": 1,
        "depth": 1,
        "similarity": senses.similarity.tolist(),
        "static": [[1.0, 1.0], [1.0, 1.0]],
    }
    assert json.loads(firth("senses", bpe_run, "list", *SENTENCES, "--layer=0", "--json").out)["similarity"] == told["static"]


def test_a_page_is_written(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    answer = firth("senses", bpe_run, "list", *SENTENCES, "--save", tmp_path / "page.html")
    assert answer.out.endswith(f"\n{tmp_path / 'page.html'}: 2 layers\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "“list” in 2 sentences" in page
    assert "static: layer 0, the embedding" in page


def test_pairs_are_measured(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    folder = write_wic(tmp_path)
    told: dict[str, Any] = json.loads(firth("senses", bpe_run, "--wic", "--data", folder, "--json").out)
    assert {"accuracy", "threshold", "layer", "pairs", "static_accuracy"} < told.keys()
    assert told == load(bpe_run).wic(folder)
    lines = firth("senses", bpe_run, "--wic", "--data", folder).out.splitlines()
    assert lines[0] == f"{'pairs':<20}{len(PAIRS)}; layer and thresholds chosen on {len(PAIRS)} training pairs"
    assert lines[1].startswith(f"{'accuracy':<20}{told['accuracy']:.4f}, same sense if cos ≥ ")
    assert lines[2].startswith(f"{'static':<20}{told['static_accuracy']:.4f}, same sense if cos ≥ ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to compare. Give a word and two or more sentences that contain it, or --wic"),
        (("list",), "nothing to compare. Give a word"),
        (("list", SENTENCES[0]), "senses compares one word across sentences. Give a list of two"),
        (("list", *SENTENCES, "--data", "pairs"), "--data pairs only applies to --wic"),
        (("list", *SENTENCES, "--wic"), "--wic evaluates all layers on its own pairs. Remove the word"),
        (("--wic", "--layer", "1"), "--wic evaluates all layers"),
        (("name", *SENTENCES), '"name" does not occur in the sentence "the list is empty."'),
        (("list", *SENTENCES, "--layer", "2"), "layer is 2, but this model has layers 0 (the embedding) to 1"),
    ],
    ids=range(8),
)
def test_what_it_is_not_for_is_said_in_a_line(arguments: tuple[str, ...], message: str, firth: Firth, bpe_run: Path) -> None:
    assert_refused(firth("senses", bpe_run, *arguments), message)
