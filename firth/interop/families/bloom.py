"""BLOOM (Le Scao et al. 2022): ALiBi, a LayerNorm on the embedding, GELU by its tanh approximation, biases, tied output.

Queries, keys and values alternate by head. The inner width is always four times the width, and the context has no end: seq_length
is what it was trained with."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap, alternating
from firth.models import TransformerConfig
from firth.models.config import transformer

# How the model was computed where it was trained, which changes no result.
_IMPLEMENTATION = (
    "attention_softmax_in_fp32", "bias_dropout_fusion", "hidden_dropout", "masked_softmax_fusion", "offset_alibi",
    "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "unk_token_id",
)  # fmt: skip

_LAYER = "transformer.h.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "transformer.word_embeddings.weight"),
        Weight("embedding_norm.{p}", "transformer.word_embeddings_layernorm.{p}"),
        Weight("blocks.{n}.attention_norm.{p}", f"{_LAYER}.input_layernorm.{{p}}"),
        Weight(
            "blocks.{n}.attention.qkv.{p}", f"{_LAYER}.self_attention.query_key_value.{{p}}", alternating(lambda settings: None)
        ),
        Weight("blocks.{n}.attention.out.{p}", f"{_LAYER}.self_attention.dense.{{p}}"),
        Weight("blocks.{n}.feedforward_norm.{p}", f"{_LAYER}.post_attention_layernorm.{{p}}"),
        Weight("blocks.{n}.feedforward.up.{p}", f"{_LAYER}.mlp.dense_h_to_4h.{{p}}"),
        Weight("blocks.{n}.feedforward.down.{p}", f"{_LAYER}.mlp.dense_4h_to_h.{{p}}"),
        Weight("norm.{p}", "transformer.ln_f.{p}"),
    ),
    repeated={"lm_head.weight": "transformer.word_embeddings.weight"},
    prefix="transformer.",
)


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("apply_residual_connection_post_layernorm", False)
    config.expect("tie_word_embeddings", True)
    for key in _IMPLEMENTATION:
        config.take(key)
    width = config.one_of("hidden_size", "n_embed")
    config.expect("n_inner", 4 * width)
    return transformer(
        TransformerConfig,
        {
            "width": width,
            "depth": config.one_of("n_layer", "num_hidden_layers"),
            "attention.heads": config.one_of("n_head", "num_attention_heads"),
            "context": config.size("seq_length", 2048),
            "position.kind": "alibi",
            "norm.kind": "layer",
            "norm.eps": config.number("layer_norm_epsilon", 1e-5),
            "feedforward.activation": "gelu_tanh",
            "embedding.norm": True,
            "bias": True,
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        "hidden_size": model.width,
        "n_layer": model.depth,
        "n_head": model.attention.heads,
        "seq_length": model.context,
        "layer_norm_epsilon": model.norm.eps,
        "hidden_dropout": model.dropout,
        "attention_dropout": 0.0,
        "apply_residual_connection_post_layernorm": False,
        "tie_word_embeddings": True,
    }


BLOOM = Family(
    title="BLOOM",
    model_type="bloom",
    architecture="BloomForCausalLM",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=frozenset({"width", "depth", "attention.heads", "context", "norm.eps"}),
    limited={
        "position.kind": ("alibi",),
        "norm.kind": ("layer",),
        "feedforward.activation": ("gelu_tanh",),
        "bias": (True,),
        "embedding.norm": (True,),
    },
)
