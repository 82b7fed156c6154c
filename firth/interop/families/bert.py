"""BERT (Devlin et al. 2019): learned positions, two segments, LayerNorm after each sublayer and on the embedding, GELU.

RoBERTa, ELECTRA and DeBERTa have the same names with another prefix; `layers` makes the table of all.
"""

from __future__ import annotations

from typing import Any

from firth.interop.families.encoders import SIZES, EncoderBody, Head, encoder_families
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import QKV, TWICE, Weight
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu"}
GELU = {"feedforward.activation": ("gelu",)}  # the hidden layer of our masked language models has no other activation
# Settings of all models of BERT's shape, besides their sizes.
SHAPE: dict[str, tuple[Any, ...]] = {
    "position.kind": ("learned",),
    "norm.kind": ("layer",),
    "norm.placement": ("post",),
    "feedforward.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
    "bias": (True,),
    "embedding.norm": (True,),
    "segments": (2, 1, 3, 4),
}


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


def read(config: ForeignConfig, activation: str = "gelu") -> TransformerEncoderConfig:
    """`activation`: theirs where config.json has none."""
    config.expect("position_embedding_type", "absolute")
    config.expect("is_decoder", False)
    config.expect("add_cross_attention", False)
    for rate in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        config.take(rate)
    own: Any = ACTIVATIONS[config.expect("hidden_act", activation, *(name for name in ACTIVATIONS if name != activation))]
    return transformer(
        TransformerEncoderConfig,
        {
            "width": config.size("hidden_size"),
            "depth": config.size("num_hidden_layers"),
            "attention.heads": config.size("num_attention_heads"),
            "feedforward.hidden": config.size("intermediate_size"),
            "context": config.size("max_position_embeddings"),
            "segments": config.size("type_vocab_size", 2),
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.eps": config.number("layer_norm_eps", 1e-12),
            "norm.placement": "post",
            "feedforward.activation": own,
            "bias": True,
            "embedding.norm": True,
            "tied": config.expect("tie_word_embeddings", True, False),
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.attention.heads,
        "intermediate_size": model.inner,
        "max_position_embeddings": model.context,
        "type_vocab_size": model.segments,
        "hidden_act": next(theirs for theirs, ours in ACTIVATIONS.items() if ours == model.feedforward.activation),
        "layer_norm_eps": model.norm.eps,
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": 0.0,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": model.tied,
    }


_POOLER = "bert.pooler.dense.{p}"
BERT = encoder_families(
    EncoderBody(
        title="BERT",
        model_type="bert",
        prefix="bert.",
        weights=(*layers("bert."), Weight("encoder.stack.position.table_Td", "bert.embeddings.position_embeddings.weight")),
        read=read,
        write=write,
        free=SIZES,
        limited=SHAPE,
        ignored=(
            "bert.embeddings.position_ids",
            "cls.seq_relationship.{p}",  # whether one sentence follows another
        ),
        pooler=("tanh", "bert.pooler.dense.weight"),
    ),
    (
        Head("embedding", "BertModel", (Weight("pooler.{p}", _POOLER),)),
        masked_head("BertForMaskedLM", "bert.", also=("BertForPreTraining",)),
        Head(
            "classification",
            "BertForSequenceClassification",
            (Weight("pooler.{p}", _POOLER), Weight("output.{p}", "classifier.{p}")),
            {"pool": "first", "pooler": "tanh"},
        ),
        Head("tagging", "BertForTokenClassification", (Weight("output.{p}", "classifier.{p}"),)),
        Head("answer", "BertForQuestionAnswering", (Weight("output.{p}", "qa_outputs.{p}"),)),
    ),
)
