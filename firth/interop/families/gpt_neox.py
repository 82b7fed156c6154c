"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): rotary positions that turn only part of each head, attention
and feed-forward network in parallel, each with a LayerNorm of its own, biases everywhere but in the output layer.

Queries, keys and values alternate by head. The numbers that turn stand first in theirs, and pairs are halves of them; in ours,
pairs are halves of the whole head, so that the rows of W^Q and W^K are permuted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firth.interop.families.family import SIZES, UNBIASED_OUTPUT, Family
from firth.interop.families.rope import ROPE_FREE, SCALINGS, read_partial_rope, write_rope
from firth.interop.files.config_map import Entry, Settings, always, choice, dropout, either, expected, number, size, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap, alternating
from firth.layers.position import partial_order

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_BASE, _FRACTION = 10_000.0, 0.25  # where config.json says nothing


def _order(model: Any) -> Sequence[int]:
    return partial_order(model.per_head, int(model.per_head * (model.position.fraction or 1.0)))


_LAYER = "gpt_neox.layers.{n}"
_STORED = ("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq")  # tables, no weights
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "gpt_neox.embed_in.weight"),
        Weight("blocks.{n}.attention_norm.{p}", f"{_LAYER}.input_layernorm.{{p}}"),
        Weight("blocks.{n}.attention.qkv.{p}", f"{_LAYER}.attention.query_key_value.{{p}}", alternating(_order)),
        Weight("blocks.{n}.attention.out.{p}", f"{_LAYER}.attention.dense.{{p}}"),
        Weight("blocks.{n}.feedforward_norm.{p}", f"{_LAYER}.post_attention_layernorm.{{p}}"),
        Weight("blocks.{n}.feedforward.up.{p}", f"{_LAYER}.mlp.dense_h_to_4h.{{p}}"),
        Weight("blocks.{n}.feedforward.down.{p}", f"{_LAYER}.mlp.dense_4h_to_h.{{p}}"),
        Weight("norm.{p}", "gpt_neox.final_layer_norm.{p}"),
        Weight("output.weight", "embed_out.weight"),
    ),
    ignored=tuple(f"{layer}.{name}" for layer in (_LAYER, "layers.{n}") for name in _STORED),
    repeated=dict.fromkeys(("embed_out.weight", "lm_head.weight"), "gpt_neox.embed_in.weight"),
    prefix="gpt_neox.",
    renamed={"embed_out.weight": "lm_head.weight"},
)


def _read_rope(config: ForeignConfig, before: Settings) -> Settings:
    base, fraction = config.number("rotary_emb_base", _BASE), config.number("rotary_pct", _FRACTION)
    return read_partial_rope(config, before["context"], base, fraction)


def _write_rope(model: Any) -> dict[str, Any]:
    fraction, rope = model.position.fraction or 1.0, write_rope(model)
    base = rope.pop("rope_theta")
    table = {**rope["rope_parameters"], "partial_rotary_factor": fraction}
    return {**rope, "rotary_pct": fraction, "rotary_emb_base": base, "rope_parameters": table}


GPT_NEOX = Family(
    title="GPT-NeoX",
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    weights=WEIGHTS,
    config=(
        *SIZES,
        size("feedforward.hidden", "intermediate_size"),
        choice("feedforward.activation", "hidden_act", _ACTIVATIONS),
        choice("feedforward.parallel", "use_parallel_residual", {True: "two_norms", False: False}),
        size("context", "max_position_embeddings", 2048),
        Entry(_read_rope, _write_rope, {*ROPE_FREE, "position.fraction"}, {"position.scaling": SCALINGS}),
        always("norm.kind", "layer"),
        number("norm.eps", "layer_norm_eps", 1e-5),
        expected("attention_bias", True),
        always("bias", True),
        UNBIASED_OUTPUT,
        either("tied", "tie_word_embeddings", False),
        dropout("hidden_dropout"),
        written(attention_dropout=0.0),
    ),
)
