"""firth inspect: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shares import half
from shell import Firth, assert_refused
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe

TEXT = "the list is empty."


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    table = pair_table(write_pairs(folder / "n.tsv"), "transformer", steps=2, evaluate_every=0)
    return train_recipe(compose(table), folder / "run").path


def told(firth: Firth, *arguments: object) -> Any:
    answer = firth("inspect", *arguments, "--json")
    assert (answer.code, answer.err) == (0, ""), answer
    return json.loads(answer.out)


def test_it_prints_what_the_heads_are_like_or_one_of_them(firth: Firth, bpe_run: Path) -> None:
    seen = load(bpe_run).attention(TEXT)
    assert firth("inspect", bpe_run, TEXT).out == seen.text() + "\n"
    assert firth("inspect", bpe_run, TEXT, "--layer", "1", "--head", "2").out == seen.text(80, 0, 1) + "\n"
    assert firth("inspect", bpe_run, TEXT, "--layer=1", "--words").out == seen.merged().text(80, 0) + "\n"


def test_attention_as_json_is_that_of_python(firth: Firth, bpe_run: Path, translator: Path) -> None:
    seen = load(bpe_run).attention(TEXT)
    every = told(firth, bpe_run, TEXT)
    assert (every["what"], every["part"], every["keys"], every["heads"]) == ("attention", "self", list(seen.keys), 2)
    np.testing.assert_allclose(every["entropy"], seen.entropy(), atol=1e-6)
    np.testing.assert_allclose(told(firth, bpe_run, TEXT, "--head=2")["weights"], seen.weights(0, 1)[0], atol=1e-6)
    np.testing.assert_allclose(told(firth, bpe_run, TEXT, "--what=lines")["weights"], seen.weights(0).mean(0), atol=1e-6)
    rollout = told(firth, bpe_run, TEXT, "--what=rollout", "--words")
    assert rollout["queries"] == ["the", "list", "is", "empty", "."]
    np.testing.assert_allclose(rollout["rollout"], seen.merged().rollout()[-1], atol=1e-6)
    crossed = told(firth, translator, "1 2", "--target", "one two", "--what=entropy")
    assert (crossed["part"], crossed["queries"]) == ("cross", ["one", "two", "<eos>"])
    assert told(firth, translator, "1 2", "--target", "one two", "--part=encoder")["queries"] == ["1", "2", "<eos>"]


def test_predictions_states_and_flow_as_json_are_those_of_python(firth: Firth, char_run: Path) -> None:
    model = load(char_run)
    predictions, expected = told(firth, char_run, TEXT, "--what=predictions", "--top=2"), model.predictions(TEXT, top=2)
    assert [one["token"] for one in predictions["tokens"]] == list(TEXT)
    assert [one["rank"] for one in predictions["tokens"]] == expected.rank.tolist()
    assert [token for token, _ in predictions["next"]] == [token for token, _ in expected.next]
    states, level = told(firth, char_run, TEXT), model.states(TEXT).levels[-1]
    assert (states["what"], states["level"], states["most"]) == ("states", "layer 1", level.most(32))
    np.testing.assert_allclose(states["values"], level.h, atol=1e-6)
    np.testing.assert_allclose(told(firth, char_run, TEXT, "--gate=reset")["values"], level.gates()["reset"], atol=1e-6)
    flow = told(firth, char_run, TEXT, "--what=flow")
    np.testing.assert_allclose(flow["state"], model.flow(TEXT).state)
    assert flow["clip"] == 1.0


FIGURES = {"attention": 2, "lines": 1, "entropy": 1, "rollout": 1, "predictions": 1, "flow": 2}


@pytest.mark.parametrize("what", FIGURES)
def test_a_page_is_written_with_the_numbers_of_each_figure(what: str, firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    answer = firth("inspect", bpe_run, TEXT, "--what", what, "--save", tmp_path / "page.html")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(f"\n{tmp_path / 'page.html'}: {FIGURES[what]} {'figures' if FIGURES[what] > 1 else 'figure'}\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<details>") == FIGURES[what]
    assert TEXT in page


def test_the_page_of_states_has_every_gate(firth: Firth, char_run: Path, tmp_path: Path) -> None:
    firth("inspect", char_run, TEXT, "--save", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"layer 1: {gate}" in page for gate in ("h", "reset", "update", "candidate"))


@pytest.mark.parametrize("what", half(["attention", "lines", "rollout", "predictions", "flow"]))
def test_a_page_of_somebody_elses_text_is_safe_to_open(what: str, firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    text = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    layer = ["--layer=1"] if what in ("attention", "lines") else []
    answer = firth("inspect", bpe_run, text, "--what", what, *layer, "--save", tmp_path / "page.html")
    assert answer.code == 0, answer
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "the text is empty; give at least one token"),
        ((TEXT, "--what=attenton"), 'unknown view "attenton"; choose one of: attention, lines, entropy'),
        ((TEXT, "--what=states"), "TransformerLM has no recurrent state; use a run with one of model.kind = rnn, lstm, gru"),
        ((TEXT, "--layer=7"), "--layer is 7; this model has 1"),
        ((TEXT, "--layer=0"), "--layer is 0; expected 1 or more"),
        ((TEXT, "--layer=1", "--head=9"), "--head is 9; this model has 1, 2"),
        ((TEXT, "--what=rollout", "--layer=7"), "--layer is 7; this model has 1"),
        ((TEXT, "--part=cross"), 'this model has no "cross" attention, only "self"'),
        (
            (TEXT, "--what=flow", "--head=1"),
            "--head does not apply to flow. Remove it, or set --what to one of: attention, lines",
        ),
        ((TEXT, "--gate=reset"), "--gate does not apply to attention"),
        ((TEXT, "--target=x"), "target is 'x', but this run is a language model. Remove it."),
    ],
    ids=range(11),
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, firth: Firth, bpe_run: Path) -> None:
    assert_refused(firth("inspect", bpe_run, *arguments), message)


def test_a_model_without_attention_says_so(firth: Firth, char_run: Path) -> None:
    answer = firth("inspect", char_run, TEXT, "--what=attention")
    assert answer.code == 2
    assert answer.err == 'firth: RecurrentLM has no attention. Use a run with model.kind = "transformer"\n'
