"""DeBERTa-v2 and v3 (He et al. 2021, 2023): BERT whose attention compares contents and distances separately, without positions in
its embedding.

The published v3 models have no architecture in config.json and are read as encoders without a head.

DeBERTa as first published (He et al. 2021) has neither ranges of distance nor a norm on their vectors. Its keys have no biases,
and queries, keys and values are one matrix, in which they alternate by head.
"""

from __future__ import annotations

from typing import Any

from firth.errors import DataError
from firth.interop.families import bert
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.files.config_map import Entry, Settings, always, expected, unused, unwritten, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.foreign_json import shown
from firth.interop.files.weight_map import Weight, alternating, stacked

_ATTENTION = "deberta.encoder.layer.{n}.attention.self"
_WEIGHTS = (
    *bert.layers("deberta.", ("query_proj", "key_proj", "value_proj")),
    Weight("encoder.stack.relative.table_Rd", "deberta.encoder.rel_embeddings.weight"),
    Weight("encoder.stack.relative.norm.{p}", "deberta.encoder.LayerNorm.{p}"),
    Weight("encoder.stack.blocks.{n}.attention.position_query.{p}", f"{_ATTENTION}.pos_query_proj.{{p}}"),
    Weight("encoder.stack.blocks.{n}.attention.position_key.{p}", f"{_ATTENTION}.pos_key_proj.{{p}}"),
)


def _read_position(config: ForeignConfig, before: Settings) -> Settings:
    config.expect("conv_kernel_size", 0)
    buckets, norms = config.whole("position_buckets", -1), config.take("norm_rel_ebd", "none")
    if norms not in ("none", "layer_norm"):
        raise DataError(f"config.json: norm_rel_ebd is {norms!r}; firth only computes 'layer_norm' or 'none'.")
    return {
        "position.buckets": buckets if buckets > 0 else None,
        "position.projections": "shared" if config.expect("share_att_key", False, True) else "own",
        "position.norm": norms == "layer_norm",
    }


def _write_position(model: Any) -> dict[str, Any]:
    return {
        "position_buckets": model.position.buckets or -1,
        "share_att_key": model.position.projections != "own",
        "norm_rel_ebd": "none" if model.position.norm is False else "layer_norm",
    }


def _read_distances(config: ForeignConfig, before: Settings) -> Settings:
    config.same("relative_attention", True, default=False)
    config.same("position_biased_input", False, default=True)
    width = before["width"]
    for key, size in (
        ("embedding_size", width),
        ("pooler_hidden_size", width),
        ("attention_head_size", width // before["attention.heads"]),
    ):
        config.expect(key, size)
    if (kinds := config.take("pos_att_type", [])) not in (["p2c", "c2p"], ["c2p", "p2c"], "p2c|c2p", "c2p|p2c"):
        raise DataError(f"config.json: pos_att_type is {shown(kinds)}; firth only computes 'p2c|c2p'.")
    farthest = config.whole("max_relative_positions", -1)
    return {"position.max_distance": farthest if farthest > 0 else before["context"]}


# The settings of all versions.
_SHAPE = (
    *bert.shape(eps=1e-7),
    bert.CONTEXT,
    bert.ACTIVATION,
    Entry(
        lambda config, before: {"segments": config.whole("type_vocab_size", 0)},
        lambda model: {"type_vocab_size": model.segments},
        limited={"segments": (0, 1, 2)},
    ),
    always("position.kind", "disentangled"),
    Entry(
        _read_distances, lambda model: {"max_relative_positions": model.position.max_distance or 128}, ("position.max_distance",)
    ),
    written(relative_attention=True, position_biased_input=False, pos_att_type=["p2c", "c2p"], pooler_dropout=0.0),
    expected("legacy", True, None),
    expected("pooler_hidden_act", "gelu"),
    unused("pooler_dropout", "cls_dropout", "z_steps"),
)


def _heads(name: str) -> tuple[Head, ...]:
    """Those of the architectures whose names begin so."""
    return (
        Head("embedding", f"{name}Model"),
        bert.masked_head(f"{name}ForMaskedLM", "deberta."),
        *labelling_heads(name, "pooler.dense.{p}", "gelu"),
    )


# What was trained beside the encoder, under the names of its authors.
_IGNORED = (
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
        weights=_WEIGHTS,
        config=(*_SHAPE, Entry(_read_position, _write_position, ("position.buckets", "position.projections", "position.norm"))),
        ignored=_IGNORED,
    ),
    _heads("DebertaV2"),
)

_OURS = "encoder.stack.blocks.{n}.attention"
_BIASES = stacked(lambda settings: (settings.attention.heads * settings.per_head,) * 2)  # of queries and values
_V1_WEIGHTS = (
    Weight(f"{_OURS}.qkv.weight", f"{_ATTENTION}.in_proj.weight", alternating(lambda _: None)),
    Weight(f"{_OURS}.query_value_bias", (f"{_ATTENTION}.q_bias", f"{_ATTENTION}.v_bias"), _BIASES),
    Weight(f"{_OURS}.position_query.{{p}}", f"{_ATTENTION}.pos_q_proj.{{p}}"),
    Weight(f"{_OURS}.position_key.weight", f"{_ATTENTION}.pos_proj.weight"),
    Weight("encoder.stack.relative.table_Rd", "deberta.encoder.rel_embeddings.weight"),
    *bert.layers("deberta."),
)
DEBERTA_V1 = encoder_families(
    EncoderBody(
        title="DeBERTa v1",
        model_type="deberta",
        prefix="deberta.",
        weights=_V1_WEIGHTS,
        config=(
            *_SHAPE,
            unwritten("talking_head", False),
            always("attention.key_bias", False),
            always("position.buckets", None),
            always("position.projections", "own"),
            always("position.norm", False),
        ),
        ignored=(*_IGNORED, "deberta.embeddings.position_embeddings.weight"),  # which the input does not have
    ),
    _heads("Deberta"),
)
