"""BERT (Devlin et al. 2019): learned positions, two segments, LayerNorm after each sublayer and on the embedding, GELU.

RoBERTa, ELECTRA and DeBERTa have the same names with another prefix; `layers` makes the table of all.
"""

from __future__ import annotations

from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.families.family import SIZES
from firth.interop.files.config_map import (
    Entry,
    always,
    choice,
    dropout,
    either,
    expected,
    number,
    size,
    unused,
    unwritten,
    written,
)
from firth.interop.files.weight_map import QKV, TWICE, Weight

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu"}
GELU = {"feedforward.activation": ("gelu",)}  # the hidden layer of our masked language models has no other activation
ACTIVATION = choice("feedforward.activation", "hidden_act", ACTIVATIONS)
SEGMENTS = Entry(
    lambda config, before: {"segments": config.size("type_vocab_size", 2)},
    lambda model: {"type_vocab_size": model.segments},
    limited={"segments": (2, 1, 3, 4)},
)
LEARNED = (always("position.kind", "learned"), expected("position_embedding_type", "absolute"))
NO_DECODER = (unwritten("is_decoder", False), unwritten("add_cross_attention", False))
CONTEXT = size("context", "max_position_embeddings")
# What all models of BERT's shape have: LayerNorm after each sublayer and on the embedding, and biases.
POST_NORM = (
    always("norm.kind", "layer"),
    always("norm.placement", "post"),
    always("embedding.norm", True),
    always("bias", True),
    either("tied", "tie_word_embeddings", True),
)


def shape(eps: float = 1e-12) -> tuple[Entry, ...]:
    """The settings that BERT's relatives share; `eps` is that of the norms if config.json has none."""
    return (
        *SIZES,
        size("feedforward.hidden", "intermediate_size"),
        number("norm.eps", "layer_norm_eps", eps),
        *POST_NORM,
        dropout("hidden_dropout_prob"),
        unused("attention_probs_dropout_prob"),
        written(attention_probs_dropout_prob=0.0),
    )


def settings(*own: Entry, context: Entry = CONTEXT, activation: Entry = ACTIVATION) -> tuple[Entry, ...]:
    """Those of a relative with learned positions, and its `own`."""
    return (*shape(), *NO_DECODER, *LEARNED, context, activation, *own)


def layers(prefix: str, query_key_value: tuple[str, str, str] = ("query", "key", "value")) -> tuple[Weight, ...]:
    """The encoder's blocks and the embedding, without positions."""
    layer, ours = f"{prefix}encoder.layer.{{n}}", "encoder.stack.blocks.{n}"
    return (
        Weight("encoder.embedding.weight", f"{prefix}embeddings.word_embeddings.weight"),
        Weight("encoder.segment.weight", f"{prefix}embeddings.token_type_embeddings.weight"),
        Weight("encoder.stack.embedding_norm.{p}", f"{prefix}embeddings.LayerNorm.{{p}}"),
        Weight(f"{ours}.attention.qkv.{{p}}", tuple(f"{layer}.attention.self.{part}.{{p}}" for part in query_key_value), QKV),
        Weight(f"{ours}.attention.out.{{p}}", f"{layer}.attention.output.dense.{{p}}"),
        Weight(f"{ours}.attention_norm.{{p}}", f"{layer}.attention.output.LayerNorm.{{p}}"),
        Weight(f"{ours}.feedforward.up.{{p}}", f"{layer}.intermediate.dense.{{p}}"),
        Weight(f"{ours}.feedforward.down.{{p}}", f"{layer}.output.dense.{{p}}"),
        Weight(f"{ours}.feedforward_norm.{{p}}", f"{layer}.output.LayerNorm.{{p}}"),
    )


def masked_head(
    architecture: str,
    body: str,
    prefix: str = "cls.predictions.",
    dense: str = "transform.dense",
    norm: str = "transform.LayerNorm",
    also: tuple[str, ...] = (),
) -> Head:
    """The head of a masked language model on a body whose names begin with `body`. It stores its output bias twice. An output
    layer of its own adds the one that is named after the layer; where the layer is the embedding, both are the same."""
    weight, bias, own_bias = f"{prefix}decoder.weight", f"{prefix}bias", f"{prefix}decoder.bias"
    return Head(
        "masked",
        architecture,
        (
            Weight("transform.{p}", f"{prefix}{dense}.{{p}}"),
            Weight("norm.{p}", f"{prefix}{norm}.{{p}}"),
            Weight("output_bias", bias),
            Weight("output.weight", weight),
            Weight("output.bias", (own_bias, bias), TWICE),
        ),
        also=also,
        limited=GELU,
        repeated={weight: f"{body}embeddings.word_embeddings.weight", own_bias: bias},
        renamed={bias: own_bias, own_bias: bias},
    )


_POOLER = "bert.pooler.dense.{p}"
BERT = encoder_families(
    EncoderBody(
        title="BERT",
        model_type="bert",
        prefix="bert.",
        weights=(*layers("bert."), Weight("encoder.stack.position.table_Td", "bert.embeddings.position_embeddings.weight")),
        config=settings(SEGMENTS),
        ignored=(
            "bert.embeddings.position_ids",
            "cls.seq_relationship.{p}",  # whether one sentence follows another
        ),
        pooler=("tanh", "bert.pooler.dense.weight"),
    ),
    (
        Head("embedding", "BertModel", (Weight("pooler.{p}", _POOLER),)),
        masked_head("BertForMaskedLM", "bert.", also=("BertForPreTraining",)),
        *labelling_heads("Bert", _POOLER),
    ),
)
