"""BLOOM (Le Scao et al. 2022): ALiBi, a LayerNorm on the embedding, GELU by its tanh approximation, biases, tied output.

Queries, keys and values alternate by head. The inner width is always four times the width, and the context has no end: seq_length
is what it was trained with."""

from __future__ import annotations

from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, always, done, dropout, either_name, expected, number, size, unused, written
from firth.interop.files.weight_map import Weight, WeightMap, alternating

# How the model was computed where it was trained, which changes no result.
_IMPLEMENTATION = (
    "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
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


BLOOM = Family(
    title="BLOOM",
    model_type="bloom",
    architecture="BloomForCausalLM",
    weights=WEIGHTS,
    config=(
        expected("apply_residual_connection_post_layernorm", False),
        expected("tie_word_embeddings", True),
        dropout("hidden_dropout"),
        unused(*_IMPLEMENTATION),
        either_name("width", "hidden_size", "n_embed"),
        Entry(lambda config, before: done(config.expect("n_inner", 4 * before["width"]))),
        either_name("depth", "n_layer", "num_hidden_layers"),
        either_name("attention.heads", "n_head", "num_attention_heads"),
        size("context", "seq_length", 2048),
        always("position.kind", "alibi"),
        always("norm.kind", "layer"),
        number("norm.eps", "layer_norm_epsilon", 1e-5),
        always("feedforward.activation", "gelu_tanh"),
        always("embedding.norm", True),
        always("bias", True),
        written(attention_dropout=0.0),
    ),
)
