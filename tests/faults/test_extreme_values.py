"""Every number of [decoding] and [training] over its whole range: it works, or one line refuses it."""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_files import forget_peak, status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import tiny, watching

import firth
from firth.api import train_recipe
from firth.config import to_table
from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import pick
from firth.errors import ConfigError, FirthError, OutOfMemory
from firth.training.config import TrainingConfig

EXTREME = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**22, 10**400)
SMALL = (
    0.0,
    -0.0,
    5e-324,
    1e-320,
    1e-45,
    1e-38,
    1e-6,
    0.5,
    1.0,
    1e6,
    3.4e38,
    1e39,
    1.7e308,
    math.inf,
    -math.inf,
    math.nan,
    -1e-300,
)
NUMBERS = {int: st.one_of(st.sampled_from(EXTREME), st.integers()), float: st.one_of(st.sampled_from(SMALL), st.floats())}


def numbers_of(config: type) -> list[tuple[str, type]]:
    """The fields of a config that are numbers, with their types."""
    hints = typing.get_type_hints(config)
    plain = {field.name: hints[field.name] for field in dataclasses.fields(config)}
    kinds = {int: int, float: float, int | None: int, float | None: float}
    return [(name, kinds[hint]) for name, hint in plain.items() if hint in kinds]


def any_number(config: type) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from(numbers_of(config)).flatmap(lambda field: st.tuples(st.just(field[0]), NUMBERS[field[1]]))


def test_the_numbers_are_found() -> None:
    assert {"temperature", "top_p", "seed", "beam", "tokens"} <= {name for name, _ in numbers_of(DecodingConfig)}
    assert {"rate", "batch", "seed", "context", "lora_alpha"} <= {name for name, _ in numbers_of(TrainingConfig)}


@pytest.mark.parametrize("name", ["temperature", "top_p"])
@pytest.mark.parametrize("value", [1e-300, 1e-45, 1e-39, 1e-7])
def test_a_vanishing_temperature_or_nucleus_is_the_most_probable_token(name: str, value: float) -> None:
    logits_BV = torch.randn(8, 50, generator=torch.Generator().manual_seed(0)) * 30
    u_B = torch.rand(8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert pick(logits_BV, DecodingConfig(**{name: value}), u_B).equal(logits_BV.argmax(-1))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("seed", 2**64), ("seed", 2**63), ("beam", 10**6), ("temperature", math.inf), ("top_p", math.nan), ("tokens", 10**15),
     ("repetition_penalty", 1e-320), ("penalty", 1e308), ("diversity", 1e300)],
)  # fmt: skip
def test_numbers_that_decoding_refuses(setting: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"decoding\.{setting}"):
        DecodingConfig(**{setting: value})


@given(change=any_number(DecodingConfig))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_of_decoding_generates_or_is_refused(change: tuple[str, Any], char_run: Path) -> None:
    run: Any = _loaded(char_run)
    name, value = change
    try:
        config = DecodingConfig(**{"tokens": 5, "beam": 2 if name in ("penalty", "diversity", "beam_groups") else 1, name: value})
    except FirthError:
        return
    tokens = min(config.tokens, 5)
    text = run.generate("the list", **{**_given(config), "tokens": tokens})
    assert isinstance(text, str)
    if name in ("temperature", "top_p", "min_p", "top_k", "repetition_penalty", "seed"):
        assert len(text) == tokens + len("the list") or len(text) == tokens


_RUNS: dict[Path, Any] = {}


def _loaded(path: Path) -> Any:
    if path not in _RUNS:
        _RUNS[path] = firth.load(path, "cpu")
    return _RUNS[path]


def _given(config: DecodingConfig) -> dict[str, Any]:
    """The settings that apply to sampling, or to beam search."""
    sampling = ("temperature", "top_k", "top_p", "min_p", "seed")
    named = ("beam", "penalty", "beam_groups", "diversity") if config.beam > 1 else sampling
    return {name: getattr(config, name) for name in (*named, "repetition_penalty")}


class Enough(Exception):
    """Some steps were trained; the millions that follow are no different."""


def _stop(training: Any, seen: Any) -> None:
    if seen.step >= 3:
        raise Enough


@pytest.mark.long
@given(change=any_number(TrainingConfig))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_of_training_trains_or_is_refused(change: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    name, value = change
    try:
        recipe = tiny(**{name: value})
        if max(recipe.training.batch, recipe.training.batch_tokens // 100, recipe.training.context) > 10**5:
            return  # may be possible on another machine; the next test has the impossible ones
        train_recipe(recipe, tmp_path_factory.mktemp("any") / "run", watcher=watching(_stop))
    except (FirthError, Enough):
        pass


@pytest.mark.parametrize(("name", "value"), [("batch", 2**31 - 1), ("width", 2**23)])
def test_what_no_memory_holds_is_one_line(name: str, value: int, tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory, match=r"take at least [\d,]+ GB, and this machine has"):
        train_recipe(tiny(**{name: value}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.width=10000000000000000000000", "expected at most 63"),
        ("model.width=100000000000", "model.width is 100,000,000,000; expected at most 16,777,216"),
        ("model.depth=1000000", "model.depth is 1,000,000; expected at most 10,000"),
        ("training.rate=inf", '"training.rate" is inf; expected a finite number'),
        ("training.seed=18446744073709551616", '"training.seed" is a number of 65 bits; expected at most 63'),
        (f"training.steps={'9' * 5000}", "expected a whole number"),
        (f"training.betas={'[' * 5000}", "expected a list of a number"),
    ],
)
def test_sizes_that_no_recipe_can_have(setting: str, message: str) -> None:
    from firth.api import compose

    with pytest.raises(ConfigError) as refused:
        compose(to_table(tiny()), [setting])
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets the highest memory so far")
def test_a_prompt_of_a_million_characters_takes_little_memory(char_run: Path) -> None:
    run = _loaded(char_run)
    run.generate("the list", tokens=1, temperature=0)
    before = forget_peak()
    run.generate("the list is empty.\n" * 52_632, tokens=3, temperature=0)
    assert status("VmHWM") - before < 256 << 20
