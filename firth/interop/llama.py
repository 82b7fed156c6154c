"""LLaMA 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024) and models of its shape, such as SmolLM2 and TinyLlama: rotary
positions, RMSNorm before each sublayer, SwiGLU, no biases, grouped-query attention.

Hugging Face's rotary pairs are halves, as ours are, so no row is permuted.
"""

from __future__ import annotations

from typing import Any

from firth.interop.family import Family
from firth.interop.foreign_config import ForeignConfig
from firth.interop.rope import ROPE_FREE, SCALINGS, read_rope, write_rope
from firth.interop.weight_map import GATE_UP, QKV, Weight, WeightMap
from firth.models import TransformerConfig

_LAYER = "model.layers.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "model.embed_tokens.weight"),
        Weight("blocks.{n}.attention_norm.weight", f"{_LAYER}.input_layernorm.weight"),
        Weight(
            "blocks.{n}.attention.qkv.weight",
            (f"{_LAYER}.self_attn.q_proj.weight", f"{_LAYER}.self_attn.k_proj.weight", f"{_LAYER}.self_attn.v_proj.weight"),
            QKV,
        ),
        Weight("blocks.{n}.attention.out.weight", f"{_LAYER}.self_attn.o_proj.weight"),
        Weight("blocks.{n}.feedforward_norm.weight", f"{_LAYER}.post_attention_layernorm.weight"),
        Weight("blocks.{n}.feedforward.up.weight", (f"{_LAYER}.mlp.gate_proj.weight", f"{_LAYER}.mlp.up_proj.weight"), GATE_UP),
        Weight("blocks.{n}.feedforward.down.weight", f"{_LAYER}.mlp.down_proj.weight"),
        Weight("norm.weight", "model.norm.weight"),
        Weight("output.weight", "lm_head.weight"),
    ),
    ignored=(f"{_LAYER}.self_attn.rotary_emb.inv_freq", "layers.{n}.self_attn.rotary_emb.inv_freq", "lm_head.weight"),
    prefix="model.",
)


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    config.expect("attention_bias", False)
    config.expect("mlp_bias", False)
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    head_width = config.size("head_dim", max(1, width // heads))
    context = config.size("max_position_embeddings", 2048)
    return TransformerConfig(
        kind="transformer",
        width=width,
        depth=config.size("num_hidden_layers"),
        heads=heads,
        kv_heads=config.size("num_key_value_heads", heads),
        head_width=None if head_width * heads == width else head_width,
        hidden=config.size("intermediate_size"),
        context=context,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        tied=config.expect("tie_word_embeddings", False, True),
        **read_rope(config, context),
    )


def write(model: TransformerConfig) -> dict[str, Any]:
    return {
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.groups,
        "head_dim": model.per_head,
        "intermediate_size": model.inner,
        "max_position_embeddings": model.context,
        "hidden_act": "silu",
        "rms_norm_eps": model.norm_eps,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": model.tied,
        **write_rope(model),
    }


LLAMA = Family(
    title="LLaMA",
    model_type="llama",
    architecture="LlamaForCausalLM",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=ROPE_FREE | {"width", "depth", "heads", "kv_heads", "head_width", "hidden", "context", "norm_eps", "tied"},
    limited={"rotary_scaling": SCALINGS},
)
