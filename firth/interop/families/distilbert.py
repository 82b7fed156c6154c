"""DistilBERT (Sanh et al. 2019): BERT without segments, and with names of its own."""

from __future__ import annotations

from firth.interop.families.bert import ACTIVATIONS, GELU, POST_NORM
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.files.config_map import always, choice, dropout, size, unused, written
from firth.interop.files.weight_map import QKV, Weight

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


DISTILBERT = encoder_families(
    EncoderBody(
        title="DistilBERT",
        model_type="distilbert",
        prefix="distilbert.",
        weights=WEIGHTS,
        config=(
            size("width", "dim"),
            size("depth", "n_layers"),
            size("attention.heads", "n_heads"),
            size("feedforward.hidden", "hidden_dim"),
            size("context", "max_position_embeddings"),
            choice("feedforward.activation", "activation", ACTIVATIONS),
            always("position.kind", "learned"),
            always("segments", 0),
            always("norm.eps", _EPS),
            *POST_NORM,
            unused("sinusoidal_pos_embds"),  # how the table of positions was first filled
            dropout("dropout"),
            unused("seq_classif_dropout", "qa_dropout"),
            written(attention_dropout=0.0),
        ),
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
        *labelling_heads("DistilBert", "pre_classifier.{p}", "relu"),
    ),
)
