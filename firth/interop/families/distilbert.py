"""DistilBERT (Sanh et al. 2019): BERT without segments, and with names of its own."""

from __future__ import annotations

from typing import Any

from firth.interop.families.bert import ACTIVATIONS, GELU, SHAPE
from firth.interop.families.encoders import SIZES, EncoderBody, Head, encoder_families
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import QKV, Weight
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer

_EPS = 1e-12  # of all its norms; config.json has no setting for it

_OURS, _LAYER = "encoder.stack.blocks.{n}", "distilbert.transformer.layer.{n}"
WEIGHTS = (
    Weight("encoder.embedding.weight", "distilbert.embeddings.word_embeddings.weight"),
    Weight("encoder.stack.position.table_Td", "distilbert.embeddings.position_embeddings.weight"),
    Weight("encoder.stack.embedding_norm.{p}", "distilbert.embeddings.LayerNorm.{p}"),
    Weight(f"{_OURS}.attention.qkv.{{p}}", tuple(f"{_LAYER}.attention.{part}_lin.{{p}}" for part in "qkv"), QKV),
    Weight(f"{_OURS}.attention.out.{{p}}", f"{_LAYER}.attention.out_lin.{{p}}"),
    Weight(f"{_OURS}.attention_norm.{{p}}", f"{_LAYER}.sa_layer_norm.{{p}}"),
    Weight(f"{_OURS}.feedforward.up.{{p}}", f"{_LAYER}.ffn.lin1.{{p}}"),
    Weight(f"{_OURS}.feedforward.down.{{p}}", f"{_LAYER}.ffn.lin2.{{p}}"),
    Weight(f"{_OURS}.feedforward_norm.{{p}}", f"{_LAYER}.output_layer_norm.{{p}}"),
)
_PREDICTIONS = (
    Weight("transform.{p}", "vocab_transform.{p}"),
    Weight("norm.{p}", "vocab_layer_norm.{p}"),
    Weight("output_bias", "vocab_projector.bias"),
    Weight("output.{p}", "vocab_projector.{p}"),
)


def read(config: ForeignConfig) -> TransformerEncoderConfig:
    config.take("sinusoidal_pos_embds")  # how the table of positions was first filled
    for rate in ("dropout", "seq_classif_dropout", "qa_dropout"):
        config.take(rate)
    activation: Any = ACTIVATIONS[config.expect("activation", *ACTIVATIONS)]
    return transformer(
        TransformerEncoderConfig,
        {
            "width": config.size("dim"),
            "depth": config.size("n_layers"),
            "attention.heads": config.size("n_heads"),
            "feedforward.hidden": config.size("hidden_dim"),
            "context": config.size("max_position_embeddings"),
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.eps": _EPS,
            "norm.placement": "post",
            "feedforward.activation": activation,
            "bias": True,
            "embedding.norm": True,
            "tied": config.expect("tie_word_embeddings", True, False),
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        "dim": model.width,
        "n_layers": model.depth,
        "n_heads": model.attention.heads,
        "hidden_dim": model.inner,
        "max_position_embeddings": model.context,
        "activation": next(theirs for theirs, ours in ACTIVATIONS.items() if ours == model.feedforward.activation),
        "dropout": model.dropout,
        "attention_dropout": 0.0,
        "tie_word_embeddings": model.tied,
    }


DISTILBERT = encoder_families(
    EncoderBody(
        title="DistilBERT",
        model_type="distilbert",
        prefix="distilbert.",
        weights=WEIGHTS,
        read=read,
        write=write,
        free=SIZES - {"norm.eps"},
        limited={**SHAPE, "segments": (0,), "norm.eps": (_EPS,)},
        ignored=("distilbert.embeddings.position_ids",),
    ),
    (
        Head("embedding", "DistilBertModel"),
        Head(
            "masked",
            "DistilBertForMaskedLM",
            _PREDICTIONS,
            limited=GELU,
            repeated={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
        ),
        Head(
            "classification",
            "DistilBertForSequenceClassification",
            (Weight("pooler.{p}", "pre_classifier.{p}"), Weight("output.{p}", "classifier.{p}")),
            {"pool": "first", "pooler": "relu"},
        ),
        Head("tagging", "DistilBertForTokenClassification", (Weight("output.{p}", "classifier.{p}"),)),
        Head("answer", "DistilBertForQuestionAnswering", (Weight("output.{p}", "qa_outputs.{p}"),)),
    ),
)
