"""The common part of LLaMA, Mistral, Qwen and Gemma: the names of their weights, and the sizes in their config.json.

All have rotary positions, RMSNorm, gated feed-forward networks and grouped-query attention. Hugging Face's rotary pairs are
halves, as ours are, so no row is permuted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from firth.interop.families.rope import ROPE_FREE, SCALINGS
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import GATE_UP, QKV, SAME, Conversion, Weight, WeightMap

LAYER = "model.layers.{n}"
FREE = ROPE_FREE | {
    "width",
    "depth",
    "attention.heads",
    "attention.kv_heads",
    "attention.head_width",
    "feedforward.hidden",
    "context",
    "norm.eps",
    "tied",
}
LIMITED: Mapping[str, tuple[Any, ...]] = MappingProxyType({"position.scaling": SCALINGS})

# The norms of a layer, from our names to theirs.
PRE_NORMS: Mapping[str, str] = MappingProxyType(
    {"attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm"}
)
QK_NORMS: Mapping[str, str] = MappingProxyType(
    {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
)


def weight_map(norms: Mapping[str, str] = PRE_NORMS, gains: Conversion = SAME) -> WeightMap:
    """`gains` says how the gains of norms are stored."""
    projections = tuple(f"{LAYER}.self_attn.{part}_proj.{{p}}" for part in "qkv")
    return WeightMap(
        (
            Weight("embedding.weight", "model.embed_tokens.weight"),
            *(Weight(f"blocks.{{n}}.{ours}.weight", f"{LAYER}.{theirs}.weight", gains) for ours, theirs in norms.items()),
            Weight("blocks.{n}.attention.qkv.{p}", projections, QKV),
            Weight("blocks.{n}.attention.out.weight", f"{LAYER}.self_attn.o_proj.weight"),
            Weight("blocks.{n}.feedforward.up.weight", (f"{LAYER}.mlp.gate_proj.weight", f"{LAYER}.mlp.up_proj.weight"), GATE_UP),
            Weight("blocks.{n}.feedforward.down.weight", f"{LAYER}.mlp.down_proj.weight"),
            Weight("norm.weight", "model.norm.weight", gains),
            Weight("output.weight", "lm_head.weight"),
        ),
        ignored=(f"{LAYER}.self_attn.rotary_emb.inv_freq", "layers.{n}.self_attn.rotary_emb.inv_freq"),
        repeated={"lm_head.weight": "model.embed_tokens.weight"},
        prefix="model.",
    )


def read_sizes(
    config: ForeignConfig, *, context: int, head_width: int | None = None, tied: bool = False, eps: float = 1e-6
) -> dict[str, Any]:
    """The settings of [model] for sizes; the arguments are what the family takes where config.json says nothing."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    given = config.size("head_dim", head_width or max(1, width // heads))
    return {
        "width": width,
        "depth": config.size("num_hidden_layers"),
        "attention.heads": heads,
        "attention.kv_heads": config.size("num_key_value_heads", heads),
        "attention.head_width": None if given * heads == width else given,
        "feedforward.hidden": config.size("intermediate_size"),
        "context": config.size("max_position_embeddings", context),
        "norm.eps": config.number("rms_norm_eps", eps),
        "tied": config.expect("tie_word_embeddings", tied, not tied),
    }


def write_sizes(model: Any) -> dict[str, Any]:
    return {
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.attention.heads,
        "num_key_value_heads": model.attention.groups,
        "head_dim": model.per_head,
        "intermediate_size": model.inner,
        "max_position_embeddings": model.context,
        "rms_norm_eps": model.norm.eps,
        "attention_dropout": 0.0,
        "tie_word_embeddings": model.tied,
    }
