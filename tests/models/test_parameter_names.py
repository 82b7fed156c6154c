"""The names of a model's parameters and the order in which a seed draws them, recorded before each score and each position scheme
got a file of its own: runs that were trained before must load, and a seed must give the same model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from firth.config import build
from firth.models import RecurrentSeq2SeqConfig, TransformerConfig, TransformerSeq2SeqConfig, language_model, seq2seq
from firth.models.initialise import initialise

OWN: dict[str, dict[str, Any]] = {"shaw": {"clip": 3}, "t5": {"buckets": 8, "reach": 5}}  # by their old names
PLAIN = {
    "blocks.0.attention.qkv.weight",
    "blocks.0.attention.out.weight",
    "blocks.0.feedforward.up.weight",
    "blocks.0.feedforward.down.weight",
    "blocks.0.attention_norm.weight",
    "blocks.0.feedforward_norm.weight",
    "norm.weight",
    "embedding.weight",
}
M, W = "blocks.0.attention.M_HDD", "blocks.0.attention.attend.w_HA"
SHAW = ("blocks.0.attention.attend.key_RD", "blocks.0.attention.attend.value_RE")
# Score, position: Σ|w| of a language model and of an encoder–decoder drawn with seed 0, and the first one's own names in order.
RECORDED: dict[tuple[str, str], tuple[float, float, tuple[str, ...]]] = {
    ("scaled_dot", "rotary"): (624.054, 1439.522, ()),
    ("dot", "rotary"): (624.054, 1439.522, ()),
    ("gaussian", "rotary"): (624.054, 1439.522, ()),
    ("bilinear", "rotary"): (636.760, 1476.552, (M,)),
    ("additive", "none"): (630.396, 1459.983, (W,)),
    ("scaled_dot", "none"): (624.054, 1439.522, ()),
    ("scaled_dot", "learned"): (641.391, 1478.371, ("position.table_Td",)),
    ("scaled_dot", "sinusoidal"): (624.054, 1439.522, ()),
    ("scaled_dot", "shaw"): (636.230, 1458.152, SHAW),
    ("scaled_dot", "t5"): (624.054, 1439.522, ("relative.table_NH",)),
    ("scaled_dot", "alibi"): (624.054, 1439.522, ()),
    ("additive", "shaw"): (642.891, 1480.623, (W, *SHAW)),
    ("bilinear", "learned"): (653.314, 1513.633, ("position.table_Td", M)),
}
RECURRENT = {"scaled_dot": 327.637, "dot": 327.637, "gaussian": 327.637, "bilinear": 339.959, "additive": 369.680}


def drawn(model: Any) -> float:
    initialise(model, torch.Generator().manual_seed(0))
    return sum(float(parameter.detach().double().abs().sum()) for parameter in model.parameters())


@pytest.mark.parametrize(("score", "position"), RECORDED)
def test_names_and_draws_of_a_transformer_are_those_recorded(score: str, position: str) -> None:
    table = {"kind": "transformer", "width": 16, "depth": 1, "heads": 4, "context": 6, "score": score, "position": position}
    table |= OWN.get(position, {})
    language, pair, own = RECORDED[score, position]
    model = language_model(build(TransformerConfig, table), 7)
    names = [name for name, _ in model.named_parameters()]
    assert tuple(name for name in names if name not in PLAIN) == own
    assert set(model.state_dict()) == PLAIN | set(own)
    assert drawn(model) == pytest.approx(language, abs=0.002)
    both = seq2seq(build(TransformerSeq2SeqConfig, {**table, "family": "seq2seq"}), 7, 7)
    all_names = {name for name, _ in both.named_parameters()}
    assert {f"{side}.{name}" for side in ("encoder", "decoder") for name in own} <= all_names
    crossed = {name.replace(".attention.", ".cross.") for name in own if name in (M, W)}
    assert {f"decoder.{name}" for name in crossed} <= all_names
    assert drawn(both) == pytest.approx(pair, abs=0.002)


@pytest.mark.parametrize("score", RECURRENT)
def test_names_and_draws_of_rnnsearch_are_those_recorded(score: str) -> None:
    table = {"kind": "gru", "family": "seq2seq", "width": 8, "attention": score, "bidirectional": False}
    model = seq2seq(build(RecurrentSeq2SeqConfig, table), 7, 7)
    assert ("attentive.attend.w_HA" in model.state_dict()) == (score == "additive")
    assert drawn(model) == pytest.approx(RECURRENT[score], abs=0.002)
