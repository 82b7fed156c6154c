"""Rotary positions stretched to a longer context: against a float64 formula, against transformers, and in a model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from tiny_runs import tiny
from tolerance import assert_equal

from firth.api import load, train_recipe
from firth.config import read_toml
from firth.errors import ConfigError
from firth.layers.attention import attend, mask
from firth.layers.position import Rotary, rotary, rotate
from firth.layers.position.rotary_scaling import Scaling
from firth.models import TransformerConfig, TransformerEncoderConfig, language_model
from firth.models.initialise import initialise
from firth.oracles import rotary_scaling as oracle

CASES = [
    (64, 10_000.0, 16, 4.0),
    (32, 500_000.0, 2048, 8.0),
    (8, 10_000.0, 16, 4.0),
    (128, 10_000.0, 4096, 2.5),
    (16, 100.0, 40, 3.0),
]


@pytest.mark.parametrize(("width", "base", "trained", "factor"), CASES)
def test_frequencies_equal_the_oracle(width: int, base: float, trained: int, factor: float) -> None:
    pairs = range(width // 2)
    ntk, yarn = Scaling("ntk", trained, factor), Scaling("yarn", trained, factor)
    truth = [oracle.ntk(i, width, base, factor) for i in pairs]
    assert_equal(ntk.frequencies(width, base), torch.tensor(truth, dtype=torch.float64))
    truth = [oracle.yarn(i, width, base, factor, trained) for i in pairs]
    assert_equal(yarn.frequencies(width, base), torch.tensor(truth, dtype=torch.float64))
    truth = [oracle.llama3(i, width, base, factor, trained) for i in pairs]
    assert_equal(Scaling("llama3", trained, factor).frequencies(width, base), torch.tensor(truth, dtype=torch.float64))
    truth = [oracle.frequency(i, width, base) / factor for i in pairs]
    assert_equal(Scaling("linear", trained, factor).frequencies(width, base), torch.tensor(truth, dtype=torch.float64))
    for tokens in (trained - 1, trained, trained + 1, 3 * trained):
        truth = [oracle.dynamic(i, width, base, factor, trained, tokens) for i in pairs]
        frequencies = Scaling("dynamic", trained, factor).of_text(tokens).frequencies(width, base)
        assert_equal(frequencies, torch.tensor(truth, dtype=torch.float64))
    assert yarn.magnitude == oracle.magnitude(factor)
    assert ntk.magnitude == 1


@pytest.mark.parametrize(("width", "base", "trained", "factor"), CASES)
def test_frequencies_equal_those_of_hugging_face(width: int, base: float, trained: int, factor: float) -> None:
    """Their "dynamic" scaling with a factor of 1 is NTK's with that of the length asked for."""
    rope = pytest.importorskip("transformers.modeling_rope_utils", reason="the oracle is Hugging Face's")
    llama = pytest.importorskip("transformers.models.llama.configuration_llama")

    def theirs(kind: str, context: int, seq_len: int | None = None, **more: Any) -> Any:
        scaled = {"rope_type": kind, "rope_theta": base, **more}
        config = llama.LlamaConfig(
            hidden_size=4 * width, num_attention_heads=4, head_dim=width, max_position_embeddings=context, rope_parameters=scaled
        )
        return rope.ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=seq_len)

    long = round(trained * factor)
    frequencies, magnitude = theirs("yarn", long, factor=factor, original_max_position_embeddings=trained)
    ours = Scaling("yarn", trained, factor)
    torch.testing.assert_close(ours.frequencies(width, base).float(), frequencies, rtol=1e-5, atol=0)  # theirs is float32
    assert ours.magnitude == pytest.approx(magnitude)
    bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    frequencies, _ = theirs("llama3", long, factor=factor, original_max_position_embeddings=trained, **bands)
    torch.testing.assert_close(
        Scaling("llama3", trained, factor).frequencies(width, base).float(), frequencies, rtol=1e-5, atol=0
    )
    frequencies, _ = theirs("linear", long, factor=factor)
    torch.testing.assert_close(
        Scaling("linear", trained, factor).frequencies(width, base).float(), frequencies, rtol=1e-5, atol=0
    )
    frequencies, _ = theirs("dynamic", trained, seq_len=long, factor=1.0)
    torch.testing.assert_close(Scaling("ntk", trained, factor).frequencies(width, base).float(), frequencies, rtol=1e-5, atol=0)


def test_the_ends_of_the_spectrum_are_kept_and_slowed_down() -> None:
    plain, s = Scaling("none", 2048, 8.0).frequencies(64, 10_000.0), 8.0
    for kind in ("ntk", "yarn"):
        scaled = Scaling(kind, 2048, s).frequencies(64, 10_000.0)  # type: ignore[arg-type]
        assert scaled[0] == plain[0]
        assert float(scaled[-1] / plain[-1]) == pytest.approx(1 / s)
        assert (scaled[1:] <= plain[1:]).all()


@pytest.mark.parametrize("kind", ["ntk", "yarn"])
def test_attend_and_a_models_table_turn_alike_and_the_magnitude_is_on_q_and_k(kind: Any) -> None:
    scaling = Scaling(kind, 16, 4.0)
    q, k, v = (torch.randn(1, 2, 20, 8, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in range(3))
    turn = Rotary(64, 8, 10_000.0, scaling).turn(0, 20)
    o = attend(q, k, v, mask=mask.CAUSAL, position=rotary(scaling=scaling))
    assert_equal(attend(rotate(q, turn), rotate(k, turn), v, mask=mask.CAUSAL), o, share=1e-6)  # the table is float32
    formula = oracle.ntk if kind == "ntk" else lambda i, D, N, s: oracle.yarn(i, D, N, s, 16)
    omega = np.array([formula(i, 8, 10_000.0, 4.0) for i in range(4)])
    angle = torch.from_numpy(7 * omega)
    m = oracle.magnitude(4.0) if kind == "yarn" else 1.0
    x1, x2 = q[0, 0, 7, :4], q[0, 0, 7, 4:]
    truth = m * torch.cat((x1 * angle.cos() - x2 * angle.sin(), x2 * angle.cos() + x1 * angle.sin()))
    assert_equal(rotary(scaling=scaling).turned(q, torch.arange(20)[None])[0, 0, 7], truth)


def config(**more: Any) -> TransformerConfig:
    return TransformerConfig(**({"kind": "transformer", "width": 16, "depth": 2, "heads": 2, "context": 24} | more))


@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "gaussian"])
@pytest.mark.parametrize("kind", ["ntk", "yarn"])
def test_cached_decoding_equals_one_pass_also_beyond_the_context(kind: str, score: str) -> None:
    model = language_model(config(rotary_scaling=kind, rotary_context=8, score=score), 11)
    initialise(model, torch.Generator().manual_seed(0))
    model = model.double().eval()
    token_BT = torch.randint(11, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        whole, _ = model(token_BT)
        state, parts = model.start(2), []
        for chunk_BT in token_BT.split([10, 1, 1, 20, 8], dim=1):
            logits_BTV, state = model.step(chunk_BT, state)
            parts.append(logits_BTV)
    assert_equal(torch.cat(parts, 1), whole)


@torch.inference_mode()
def test_dynamic_positions_are_cached_within_the_trained_context_and_refused_beyond() -> None:
    model = language_model(config(rotary_scaling="dynamic", rotary_context=8, rotary_factor=2.0), 11)
    initialise(model, torch.Generator().manual_seed(0))
    model = model.double().eval()
    token_BT = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(1))
    whole, state, parts = model(token_BT[:, :8])[0], model.start(2), []
    for chunk_BT in token_BT[:, :8].split([3, 1, 4], dim=1):
        logits_BTV, state = model.step(chunk_BT, state)
        parts.append(logits_BTV)
    assert_equal(torch.cat(parts, 1), whole)
    longer = model(token_BT)[0]
    assert (longer[:, :8] - whole).abs().max() > 1e-3  # every position of a longer text is turned in another way
    with pytest.raises(ConfigError, match=r"a text beyond model\.position\.context = 8 tokens cannot be read in parts"):
        model.step(token_BT[:, 8:9], state)
    _, state = model.step(token_BT, model.start(2))
    with pytest.raises(ConfigError, match="cannot be read in parts"):
        model.step(token_BT[:, :1], state)
    with pytest.raises(ConfigError, match="cannot be read in parts"):
        model.reach(9)
    assert model.context == 8  # whatever writes text starts anew there
    with pytest.raises(ConfigError, match=r"give position.rotary the scaling.of_text\(length\)"):
        rotary(scaling=Scaling("dynamic", 8, 2.0))


def test_dynamic_positions_are_for_language_models() -> None:
    with pytest.raises(ConfigError, match=r'"dynamic" only applies to language models; given "encoder"'):
        TransformerEncoderConfig(kind="transformer", rotary_scaling="dynamic", rotary_context=8, rotary_factor=2.0)


def test_scaling_changes_the_model_and_not_its_parameters() -> None:
    plain, yarn = (language_model(config(**more), 11) for more in ({}, {"rotary_scaling": "yarn", "rotary_context": 8}))
    assert set(plain.state_dict()) == set(yarn.state_dict())
    initialise(plain, torch.Generator().manual_seed(0))
    yarn.load_state_dict(plain.state_dict())
    token_BT = torch.randint(11, (1, 20), generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(plain(token_BT)[0], yarn(token_BT)[0], atol=1e-3)


def test_under_the_cosine_score_the_temperature_of_yarn_is_kept() -> None:
    """q and k are normalised before they are turned, or the factor m would be divided out."""
    model: Any = language_model(config(rotary_scaling="yarn", rotary_context=8, score="cosine"), 11)
    attention, turn = model.blocks[0].attention, model.scheme.turn(0, 5)
    initialise(model, torch.Generator().manual_seed(0))
    _, k_BGTD, _ = attention.split(attention.qkv(torch.randn(1, 5, 16)), turn)
    torch.testing.assert_close(k_BGTD.norm(dim=-1), torch.full((1, 2, 5), 0.1 * math.log(3) + 1))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no trained context": ({"rotary_scaling": "yarn"}, 'model.position.scaling = "yarn" needs model.position.context'),
    "no scaling": ({"rotary_context": 8}, 'model.position.context = 8 needs model.position.scaling; choose "ntk" or "yarn"'),
    "nothing to stretch": (
        {"rotary_scaling": "ntk", "rotary_context": 24},
        "model.context = 24 is not longer than model.position.context = 24. Set model.context to the longer context",
    ),
    "another position": (
        {"rotary_scaling": "ntk", "rotary_context": 8, "position": "alibi"},
        'model.position.scaling only applies to model.position = "rotary"; given "alibi"',
    ),
    "narrow heads": ({"rotary_scaling": "ntk", "rotary_context": 8, "heads": 8}, "needs heads of width 4 or more"),
    "factor": (
        {"rotary_scaling": "linear", "rotary_context": 8, "rotary_factor": 0.5},
        "model.position.factor is 0.5; expected at least 1",
    ),
    "factor alone": ({"rotary_factor": 2.0}, "model.position.factor = 2.0 needs model.position.scaling"),
    "no context": ({"rotary_scaling": "ntk", "rotary_context": 0}, "model.position.context is 0; expected at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_do_not_fit_are_refused(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        config(**options)
    assert message in str(error.value)


# A run that was trained with a short context

SMALL = TransformerConfig(kind="transformer", width=16, depth=1, heads=2, hidden=32)


def loss_at_64(run: Path, out: Path, scaling: str | None, steps: int, rate: float) -> float:
    """The validation loss on windows of 64 tokens of a run that begins with the weights of `run`."""
    more: dict[str, Any] = {} if scaling is None else {"rotary_scaling": scaling, "rotary_context": 16}
    given = tiny("transformer", steps=steps, rate=rate, schedule="constant", context=64, init=str(run), warmup=0)
    train_recipe(replace(given, model=replace(SMALL, **more)), out)
    loss: Any = load(out).evaluate()["loss"]
    return float(loss)


def test_a_run_trained_at_16_is_evaluated_and_trained_on_at_64_through_the_setting(tmp_path: Path) -> None:
    short = tmp_path / "short"
    train_recipe(replace(tiny("transformer", steps=60, context=16), model=SMALL), short)
    before = {kind: loss_at_64(short, tmp_path / f"{kind}", kind, 1, 1e-30) for kind in (None, "ntk", "yarn")}
    assert all(math.isfinite(loss) for loss in before.values())
    assert len(set(before.values())) == 3  # each setting turns the same q and k differently
    after = {kind: loss_at_64(short, tmp_path / f"{kind}-on", kind, 30, 1e-2) for kind in ("ntk", "yarn")}
    assert all(after[kind] < before[kind] for kind in after), (before, after)


def test_the_recipe_of_a_run_may_be_changed_to_a_longer_context(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_recipe(replace(tiny("transformer", steps=1, context=16), model=SMALL), run)
    table = read_toml(run / "recipe.toml")
    assert table["model"]["context"] == 16
    table["model"]["context"] = 64
    table["model"]["position"] |= {"scaling": "yarn", "context": 16}
    (run / "recipe.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    model: Any = load(run)
    assert model.network.context == 64
    assert model.network.scheme.scaling == Scaling("yarn", 16, 4.0)
    assert len(model.generate("3 times", tokens=60, seed=0)) >= 40  # one step has not unlearned <start>, which is no character
