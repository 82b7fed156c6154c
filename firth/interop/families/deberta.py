"""DeBERTa-v2 and v3 (He et al. 2021, 2023): BERT whose attention compares contents and distances separately, without positions in
its embedding.

The published v3 models have no architecture in config.json and are read as encoders without a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firth.errors import DataError
from firth.interop.families import bert
from firth.interop.families.encoders import SIZES, EncoderBody, Head, encoder_families
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.foreign_json import shown
from firth.interop.files.weight_map import Weight
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer

_ATTENTION = "deberta.encoder.layer.{n}.attention.self"
WEIGHTS = (
    *bert.layers("deberta.", ("query_proj", "key_proj", "value_proj")),
    Weight("encoder.stack.relative.table_Rd", "deberta.encoder.rel_embeddings.weight"),
    Weight("encoder.stack.relative.norm.{p}", "deberta.encoder.LayerNorm.{p}"),
    Weight("encoder.stack.blocks.{n}.attention.position_query.{p}", f"{_ATTENTION}.pos_query_proj.{{p}}"),
    Weight("encoder.stack.blocks.{n}.attention.position_key.{p}", f"{_ATTENTION}.pos_key_proj.{{p}}"),
)


def read(config: ForeignConfig) -> TransformerEncoderConfig:
    config.expect("conv_kernel_size", 0)
    buckets, norms = config.whole("position_buckets", -1), config.take("norm_rel_ebd", "none")
    if norms not in ("none", "layer_norm"):
        raise DataError(f"config.json: norm_rel_ebd is {norms!r}; firth only computes 'layer_norm' or 'none'.")
    own = {
        "position.buckets": buckets if buckets > 0 else None,
        "position.projections": "shared" if config.expect("share_att_key", False, True) else "own",
        "position.norm": norms == "layer_norm",
    }
    return read_shape(config, own)


def read_shape(config: ForeignConfig, own: Mapping[str, Any]) -> TransformerEncoderConfig:
    """The settings of all versions; `own` are the settings of [model] that differ."""
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "pooler_dropout", "cls_dropout"):
        config.take(key)
    config.same("relative_attention", True, default=False)
    config.same("position_biased_input", False, default=True)
    config.expect("legacy", True, None)
    config.expect("pooler_hidden_act", "gelu")
    config.take("z_steps")
    width, heads, context = config.size("hidden_size"), config.size("num_attention_heads"), config.size("max_position_embeddings")
    for key, size in (("embedding_size", width), ("pooler_hidden_size", width), ("attention_head_size", width // heads)):
        config.expect(key, size)
    if (kinds := config.take("pos_att_type", [])) not in (["p2c", "c2p"], ["c2p", "p2c"], "p2c|c2p", "c2p|p2c"):
        raise DataError(f"config.json: pos_att_type is {shown(kinds)}; firth only computes 'p2c|c2p'.")
    farthest = config.whole("max_relative_positions", -1)
    activation: Any = bert.ACTIVATIONS[config.expect("hidden_act", *bert.ACTIVATIONS)]
    return transformer(
        TransformerEncoderConfig,
        {
            "width": width,
            "depth": config.size("num_hidden_layers"),
            "attention.heads": heads,
            "feedforward.hidden": config.size("intermediate_size"),
            "context": context,
            "segments": config.whole("type_vocab_size", 0),
            "position.kind": "disentangled",
            "position.max_distance": farthest if farthest > 0 else context,
            **own,
            "norm.kind": "layer",
            "norm.eps": config.number("layer_norm_eps", 1e-7),
            "norm.placement": "post",
            "feedforward.activation": activation,
            "bias": True,
            "embedding.norm": True,
            "tied": config.expect("tie_word_embeddings", True, False),
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        **write_shape(model),
        "position_buckets": model.position.buckets or -1,
        "share_att_key": model.position.projections != "own",
        "norm_rel_ebd": "none" if model.position.norm is False else "layer_norm",
    }


def write_shape(model: Any) -> dict[str, Any]:
    table = bert.write(model)
    del table["position_embedding_type"]
    return {
        **table,
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
        "max_relative_positions": model.position.max_distance or 128,
        "pooler_hidden_act": "gelu",
        "pooler_dropout": 0.0,
        "legacy": True,
    }


def heads(name: str) -> tuple[Head, ...]:
    """Those of the architectures whose names begin so."""
    return (
        Head("embedding", f"{name}Model"),
        bert.masked_head(f"{name}ForMaskedLM", "deberta."),
        Head(
            "classification",
            f"{name}ForSequenceClassification",
            (Weight("pooler.{p}", "pooler.dense.{p}"), Weight("output.{p}", "classifier.{p}")),
            {"pool": "first", "pooler": "gelu"},
        ),
        Head("tagging", f"{name}ForTokenClassification", (Weight("output.{p}", "classifier.{p}"),)),
        Head("answer", f"{name}ForQuestionAnswering", (Weight("output.{p}", "qa_outputs.{p}"),)),
    )


# What was trained beside the encoder, under the names of its authors.
IGNORED = (
    "deberta.embeddings.position_ids",
    "lm_predictions.lm_head.dense.{p}",
    "lm_predictions.lm_head.LayerNorm.{p}",
    "lm_predictions.lm_head.bias",
    "mask_predictions.dense.{p}",
    "mask_predictions.LayerNorm.{p}",
    "mask_predictions.classifier.{p}",
)
DEBERTA = encoder_families(
    EncoderBody(
        title="DeBERTa",
        model_type="deberta-v2",
        prefix="deberta.",
        weights=WEIGHTS,
        read=read,
        write=write,
        free=SIZES | {"position.max_distance", "position.buckets", "position.projections", "position.norm"},
        limited={**bert.SHAPE, "position.kind": ("disentangled",), "segments": (0, 1, 2)},
        ignored=IGNORED,
    ),
    heads("DebertaV2"),
)
