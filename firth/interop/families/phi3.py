"""Phi-3 (Abdin et al. 2024) and Phi-4: LLaMA with one matrix for queries, keys and values, and one for gate and value, as
ours are. All layers may attend to a window; in Phi-4-mini, only part of each head turns.

The numbers that turn stand first in a head, as in GPT-NeoX. The models for 128,000 tokens, whose rope_type is "longrope", are
refused: their frequencies depend on the length of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LAYER, PRE_NORMS, read_sizes, write_sizes
from firth.interop.families.rope import read_partial_rope, write_rope
from firth.interop.families.windows import MASKS, settings_of
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap, turned
from firth.layers.position import partial_order
from firth.models import TransformerConfig
from firth.models.config import transformer


def _order(model: Any) -> Sequence[int] | None:
    fraction = model.position.fraction
    return None if fraction is None else partial_order(model.per_head, int(model.per_head * fraction))


WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "model.embed_tokens.weight"),
        *(Weight(f"blocks.{{n}}.{ours}.weight", f"{LAYER}.{theirs}.weight") for ours, theirs in PRE_NORMS.items()),
        Weight("blocks.{n}.attention.qkv.weight", f"{LAYER}.self_attn.qkv_proj.weight", turned(_order)),
        Weight("blocks.{n}.attention.out.weight", f"{LAYER}.self_attn.o_proj.weight"),
        Weight("blocks.{n}.feedforward.up.weight", f"{LAYER}.mlp.gate_up_proj.weight"),
        Weight("blocks.{n}.feedforward.down.weight", f"{LAYER}.mlp.down_proj.weight"),
        Weight("norm.weight", "model.norm.weight"),
        Weight("output.weight", "lm_head.weight"),
    ),
    ignored=(f"{LAYER}.self_attn.rotary_emb.inv_freq", "layers.{n}.self_attn.rotary_emb.inv_freq"),
    repeated={"lm_head.weight": "model.embed_tokens.weight"},
    prefix="model.",
)


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    config.take("original_max_position_embeddings")  # of longrope
    sizes = read_sizes(config, context=4096, eps=1e-5)
    span = config.optional("sliding_window", None)
    windows = {} if span is None else settings_of(["sliding_attention"] * sizes["depth"], span, sizes["depth"])
    base, fraction = config.number("rope_theta", 10_000.0), config.positive("partial_rotary_factor", 1.0)
    rope = read_partial_rope(config, sizes["context"], base, fraction, kinds=())
    return transformer(TransformerConfig, {**sizes, **windows, **rope})


def write(model: Any) -> dict[str, Any]:
    fraction, rope = model.position.fraction or 1.0, write_rope(model)
    return {
        **write_sizes(model),
        "hidden_act": "silu",
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "sliding_window": model.attention.span,
        "original_max_position_embeddings": model.context,
        "pad_token_id": None,  # by default a row that a small vocabulary lacks
        **rope,
        "partial_rotary_factor": fraction,
        "rope_parameters": {**rope["rope_parameters"], "partial_rotary_factor": fraction},
    }


PHI3 = Family(
    title="Phi-3",
    model_type="phi3",
    architecture="Phi3ForCausalLM",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=(FREE - {"position.context", "position.factor"}) | {"attention.span", "position.fraction"},
    limited={"attention.mask": MASKS, "position.scaling": (None, "none")},
)
