"""LLaMA 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024) and models of its shape, such as SmolLM2 and TinyLlama: rotary
positions, RMSNorm before each sublayer, SwiGLU, no biases, grouped-query attention. Qwen, Gemma and Phi have the same names.

Mistral 7B and its successors (Jiang et al. 2023): all layers may attend to a window of the last tokens. Their window and ours
both count the current token.

OLMo 2 (OLMo et al. 2024): norms on the output of each sublayer and none on its input, and normalised queries and keys, those of
all heads together.

Hugging Face's rotary pairs are halves, as ours are, so no row is permuted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from firth.interop.families.family import SIZES, Family
from firth.interop.families.rope import ROPE
from firth.interop.families.windows import one_window
from firth.interop.files.config_map import Entry, Settings, always, either, expected, number, size, unwritten, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import GATE_UP, QKV, SAME, Conversion, Weight, WeightMap

LAYER = "model.layers.{n}"
SILU = expected("hidden_act", "silu", "swish")

# The norms of a layer, from our names to theirs.
PRE_NORMS: Mapping[str, str] = MappingProxyType(
    {"attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm"}
)
QK_NORMS: Mapping[str, str] = MappingProxyType(
    {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
)


_QKV = Weight("blocks.{n}.attention.qkv.{p}", tuple(f"{LAYER}.self_attn.{part}_proj.{{p}}" for part in "qkv"), QKV)
_UP = Weight("blocks.{n}.feedforward.up.weight", (f"{LAYER}.mlp.gate_proj.weight", f"{LAYER}.mlp.up_proj.weight"), GATE_UP)


def weight_map(norms: Mapping[str, str] = PRE_NORMS, gains: Conversion = SAME, qkv: Weight = _QKV, up: Weight = _UP) -> WeightMap:
    """`gains` says how the gains of norms are stored."""
    return WeightMap(
        (
            Weight("embedding.weight", "model.embed_tokens.weight"),
            *(Weight(f"blocks.{{n}}.{ours}.weight", f"{LAYER}.{theirs}.weight", gains) for ours, theirs in norms.items()),
            qkv,
            Weight("blocks.{n}.attention.out.weight", f"{LAYER}.self_attn.o_proj.weight"),
            up,
            Weight("blocks.{n}.feedforward.down.weight", f"{LAYER}.mlp.down_proj.weight"),
            Weight("norm.weight", "model.norm.weight", gains),
            Weight("output.weight", "lm_head.weight"),
        ),
        ignored=(f"{LAYER}.self_attn.rotary_emb.inv_freq", "layers.{n}.self_attn.rotary_emb.inv_freq"),
        repeated={"lm_head.weight": "model.embed_tokens.weight"},
        prefix="model.",
    )


def sizes(context: int, head_width: int | None = None, tied: bool = False, eps: float = 1e-6) -> tuple[Entry, ...]:
    """The arguments are what the family takes where config.json says nothing."""

    def read_head_width(config: ForeignConfig, before: Settings) -> Settings:
        width, heads = before["width"], before["attention.heads"]
        given = config.size("head_dim", head_width or max(1, width // heads))
        return {"attention.head_width": None if given * heads == width else given}

    return (
        *SIZES,
        size("attention.kv_heads", "num_key_value_heads", "attention.heads"),
        Entry(read_head_width, lambda model: {"head_dim": model.per_head}, free=("attention.head_width",)),
        size("feedforward.hidden", "intermediate_size"),
        size("context", "max_position_embeddings", context),
        number("norm.eps", "rms_norm_eps", eps),
        either("tied", "tie_word_embeddings", tied),
        written(attention_dropout=0.0),
    )


LLAMA = Family(
    title="LLaMA",
    model_type="llama",
    architecture="LlamaForCausalLM",
    weights=weight_map(),
    config=(
        *sizes(context=2048),
        SILU,
        expected("attention_bias", False),
        expected("mlp_bias", False),
        unwritten("rope_interleaved", False),
        ROPE,
    ),
)

MISTRAL = Family(
    title="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    weights=weight_map(),
    config=(*sizes(context=131_072), SILU, one_window(4096), ROPE),
)

_NORMS = {"attention_post_norm": "post_attention_layernorm", "feedforward_post_norm": "post_feedforward_layernorm"}

OLMO2 = Family(
    title="OLMo 2",
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    weights=weight_map({**_NORMS, **QK_NORMS}),
    config=(
        *sizes(context=2048, eps=1e-5),
        SILU,
        expected("attention_bias", False),
        always("norm.placement", "after"),
        always("attention.qk_norm", "whole"),
        ROPE,
    ),
)
