"""The study of lengths beyond training, on models that are far too small to say anything about positions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import TEXT
from shell import Firth

from firth.api import load
from firth.api.recipe import compose
from firth.config import to_table
from firth.errors import ConfigError, DataError
from firth.experiments.extrapolation import POSITIONS, STEPS, Extrapolation, _base, extrapolate, with_position
from firth.layers.position import SCHEMES
from firth.layers.position.rotary_scaling import Scaling
from firth.models.stretch import stretched
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.running_text import text_of

CONTEXT = 8


def table() -> dict[str, Any]:
    return {
        "data": {"text": TEXT, "valid": 0.1},
        "model": {"kind": "transformer", "width": 16, "depth": 1, "heads": 2},
        "training": {"steps": 4, "batch": 4, "context": CONTEXT, "rate": 0.01, "device": "cpu"},
    }


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "tiny.toml"
    path.write_text(compose(table()).toml(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def study(recipe: Path) -> Extrapolation:
    return extrapolate(recipe, tokens=130, out=recipe.parent / "runs")


def windowed(run: LanguageModelRun, network: Any, ids: np.ndarray, context: int) -> float:
    """The mean loss of a direct loop over windows."""
    nats = []
    for start in range(0, len(ids) - 1, context):
        token_1T = torch.from_numpy(ids[start : start + context + 1].astype(np.int64))[None]
        with torch.inference_mode():
            log_p_TV = torch.log_softmax(network(token_1T[:, :-1])[0][0].double(), -1)
        nats += (-log_p_TV.gather(1, token_1T[0, 1:, None])[:, 0]).tolist()
    return math.fsum(nats) / len(nats)


def test_every_scheme_is_measured_at_every_length_on_the_same_tokens(study: Extrapolation, recipe: Path) -> None:
    assert (study.context, study.lengths, study.tokens, study.steps) == (8, (8, 16, 32, 64), 128, 4)
    assert tuple(one.position for one in study.schemes) == POSITIONS
    for one in study.schemes:
        kind, _, scaling = one.position.partition("+")
        run = load(recipe.parent / "runs" / kind, kind=LanguageModelRun)
        ids = text_of(run, None, "valid", lambda *_: None)[1].ids[:129]
        for length, loss in zip(study.lengths, one.loss, strict=True):
            if kind == "learned" and length > CONTEXT:
                assert loss is None
                continue
            network = run.network
            if scaling and length > CONTEXT:
                network = stretched(network, length, scaling, CONTEXT)  # type: ignore[arg-type]
            assert loss == pytest.approx(windowed(run, network, ids, length), rel=1e-6)
        longest = CONTEXT if kind == "learned" else 64
        assert len(one.by_position) == longest
        assert np.mean(one.by_position) == pytest.approx([loss for loss in one.loss if loss is not None][-1])


def test_stretching_turns_by_other_frequencies_and_shares_the_weights(study: Extrapolation, recipe: Path) -> None:
    network = load(recipe.parent / "runs" / "rotary", kind=LanguageModelRun).network
    longer = stretched(network, 32, "yarn", CONTEXT)  # type: ignore[arg-type]
    assert longer.scheme.scaling == Scaling("yarn", CONTEXT, 4.0)
    assert longer.embedding.weight.data_ptr() == network.embedding.weight.data_ptr()
    plain, ntk, yarn = (next(one for one in study.schemes if one.position == f"rotary{end}") for end in ("", "+ntk", "+yarn"))
    assert plain.loss[0] == ntk.loss[0] == yarn.loss[0]
    assert len({plain.loss[-1], ntk.loss[-1], yarn.loss[-1]}) == 3


def test_the_schemes_are_trained_alike_but_for_their_positions() -> None:
    base = compose(table())
    for kind in SCHEMES.kinds:
        one = with_position(base, kind)
        before, after = to_table(base.model), to_table(one.model)
        changed = {key for key in after if after[key] != before.get(key)}
        assert changed <= {"position", "context"}
        assert (one.model.position.kind, one.training, one.data) == (kind, base.training, base.data)
        if kind in ("shaw", "t5"):
            assert one.model.position.max_distance < CONTEXT  # so that the last row, of all greater distances, is trained


def test_finished_runs_are_not_trained_again(study: Extrapolation, recipe: Path) -> None:
    runs = recipe.parent / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*.safetensors")}
    again = extrapolate(recipe, positions=["alibi", "learned"], lengths=[2, 1], tokens=130, out=runs)
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*.safetensors")} == before
    losses = {one.position: one.loss for one in study.schemes}
    assert {one.position: one.loss for one in again.schemes} == {name: losses[name][:2] for name in ("alibi", "learned")}


def test_the_verb_prints_a_table_and_saves_a_page(firth: Firth, study: Extrapolation, recipe: Path, tmp_path: Path) -> None:
    options = ["--tokens", 130, "--out", recipe.parent / "runs", "--positions", "learned,rotary,rotary+yarn"]
    shown = firth("extrapolate", recipe, *options, "--save", tmp_path / "page.html").out
    row = next(line for line in shown.splitlines() if line.startswith("learned"))
    learned = next(one for one in study.schemes if one.position == "learned")
    assert row.split() == ["learned", f"{learned.loss[0]:.3f}", "–", "–", "–"]
    assert "the same 128 held-out tokens, read in windows of 8, 16, 32 and 64 tokens" in shown
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "rotary+yarn" in page
    assert f"{learned.loss[0]:.3f}" in page
    told = json.loads(firth("extrapolate", recipe, *options, "--json").out)
    assert told["schemes"][0]["loss"] == [learned.loss[0], None, None, None]


def test_settings_reach_every_training_and_runs_in_a_temporary_folder_are_gone(firth: Firth, recipe: Path) -> None:
    told = json.loads(
        firth(
            "extrapolate", recipe, "--positions=none", "--lengths=1,3", "--training.steps=2", "--training.context=6", "--json"
        ).out
    )
    assert (told["steps"], told["context"], told["lengths"]) == (2, 6, [6, 18])
    assert sorted(path.name for path in recipe.parent.iterdir()) in (["runs", "tiny.toml"], ["tiny.toml"])


def test_the_budget_is_small_unless_the_settings_say_otherwise() -> None:
    base, longer, slow = (
        _base("docs-char-transformer", given) for given in ([], ["training.steps=900"], ["training.warmup=150"])
    )
    assert (base.training.steps, base.training.warmup) == (STEPS, STEPS // 10)
    assert (longer.training.steps, longer.training.warmup) == (900, 90)
    assert (slow.training.steps, slow.training.warmup) == (STEPS, 150)
    assert base.expected is None


@pytest.mark.parametrize("steps", [["--training.steps=1"], ["--training.steps", "1"]])
def test_the_recipe_may_be_left_out(firth: Firth, tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "my.txt").write_text(TEXT, encoding="utf-8")
    small = ["--model.width=6", "--model.feedforward.hidden=8", "--model.depth=1", "--training.context=8", "--training.batch=2"]
    data = [f"--data.path={tmp_path / 'my.txt'}", "--data.valid=0.1"]
    answer = firth("extrapolate", *steps, *data, *small, "--positions=none", "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert (told["recipe"], told["steps"], told["context"]) == ("docs-char-transformer", 1, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positions": ["rotari"]}, 'there is no position scheme "rotari". Did you mean "rotary"'),
        ({"lengths": [0, 2]}, "expected at least one position, and lengths and tokens of 1 or more"),
        ({"recipe": "hello"}, "hello is not a Transformer language model"),
    ],
)
def test_what_cannot_be_studied(recipe: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        extrapolate(**({"recipe": recipe} | options))


def test_a_text_that_has_no_window_of_the_longest_length_is_refused(recipe: Path) -> None:
    with pytest.raises(DataError, match=r"the held-out text has 2\d\d tokens, but windows of 512 need at least 513"):
        extrapolate(recipe, positions=["none"], lengths=[64])
