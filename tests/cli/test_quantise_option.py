"""--quantise: what is printed, what it loses, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import recipe_table
from shell import Firth

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError
from firth.models.quantisation import is_quantised
from firth.tasks.next_token import LanguageModelRun

RUNS = ("char_run", "transformer_run")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


def test_a_text_is_generated_with_quantised_weights(firth: Firth, run: Path) -> None:
    plain = firth("generate", run, "the ", "--temperature", 0)
    answer = firth("generate", run, "the ", "--temperature", 0, "--quantise", "int8")
    assert answer.code == 0, answer.err
    assert answer.out[:12] == plain.out[:12]
    assert answer.err.startswith("int8: ")
    assert "matrices quantised" in answer.err
    assert "matrices" not in plain.err


def test_a_text_is_scored_with_quantised_weights(firth: Firth, run: Path) -> None:
    file = "the list is empty.\n"
    plain, close, far = (
        json.loads(firth("score", run, "-", "--json", *option, stdin=file.encode()).out)["log_probability"]
        for option in ((), ("--quantise", "int8"), ("--quantise", "int4"))
    )
    assert plain != close != far
    assert abs(close - plain) < 0.02 * abs(plain)
    assert abs(far - plain) < 0.6 * abs(plain)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_evaluate_tells_what_is_lost(firth: Firth, run: Path, kind: str) -> None:
    before = json.loads(firth("evaluate", run, "--json").out)
    after = json.loads(firth("evaluate", run, "--quantise", kind, "--json").out)
    assert after["before"] == before
    assert after["quantised"]["kind"] == kind
    assert after["quantised"]["bytes"] < after["quantised"]["bytes_before"]
    for name in ("loss", "perplexity", "bits_per_character"):
        assert after["difference"][name] == pytest.approx(after[name] - before[name])
        assert after[name] != before[name]
    assert after["perplexity"] == pytest.approx(before["perplexity"], rel=0.01 if kind == "int8" else 0.3)
    printed = firth("evaluate", run, "--quantise", kind).out
    assert f"perplexity              {after['perplexity']:>8.4f}    {before['perplexity']:>8.4f}" in printed
    assert "%)" in printed


def test_load_quantises(run: Path) -> None:
    model = load(run, "cpu", kind=LanguageModelRun, quantise="int4")
    assert is_quantised(model.network)
    assert model.quantised is not None
    assert model.quantised.kind == "int4"
    assert load(run, "cpu").quantised is None
    assert len(model.generate("the ", tokens=5)) > 4


def test_a_wider_context_is_evaluated_with_quantised_weights(transformer_run: Path) -> None:
    model = load(transformer_run, "cpu", kind=LanguageModelRun, quantise="int8")
    plain = load(transformer_run, "cpu", kind=LanguageModelRun).evaluate(context=48)
    assert model.evaluate(context=48)["loss"] == pytest.approx(plain["loss"], rel=0.01)
    with pytest.raises(ConfigError, match="rotary_scaling does not apply to quantised weights"):
        model.evaluate(context=48, rotary_scaling="ntk")


def test_gradients_and_unknown_kinds_are_refused(firth: Firth, transformer_run: Path) -> None:
    model = load(transformer_run, "cpu", kind=LanguageModelRun, quantise="int8")
    with pytest.raises(ConfigError, match="flow needs gradients"):
        model.flow("the list")
    with pytest.raises(ConfigError, match="is quantised already"):
        model.quantise("int8")
    for verb in (("generate", transformer_run, "x"), ("evaluate", transformer_run)):
        answer = firth(*verb, "--quantise", "int2")
        assert answer.code == 2
        assert 'quantise is "int2"; choose int8 or int4' in answer.err


def test_a_gru_of_the_published_form_is_refused(tmp_path: Path) -> None:
    table = recipe_table(steps=1)
    path = train_recipe(compose(table | {"model": table["model"] | {"reset": "before"}}), tmp_path / "run").path  # type: ignore[operator]
    with pytest.raises(ConfigError, match='cannot be quantised: a GRU with reset="before"'):
        load(path, "cpu", quantise="int8")
