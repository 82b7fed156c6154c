"""ALBERT (Lan et al. 2020): BERT whose layers share their weights, all of them or in groups, and whose token embeddings are
narrower than its layers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.errors import DataError
from firth.interop.families import bert
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.files.config_map import Entry, Settings, choice, expected, unused
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import QKV, Weight

_WIDTH = 128  # of the embeddings, if config.json has none
_UNUSED = ("classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks")

_OURS, _LAYER = "encoder.stack.blocks.{n}", "albert.encoder.albert_layer_groups.{n}.albert_layers.0"
WEIGHTS = (
    Weight("encoder.embedding.weight", "albert.embeddings.word_embeddings.weight"),
    Weight("encoder.segment.weight", "albert.embeddings.token_type_embeddings.weight"),
    Weight("encoder.stack.position.table_Td", "albert.embeddings.position_embeddings.weight"),
    Weight("encoder.stack.embedding_norm.{p}", "albert.embeddings.LayerNorm.{p}"),
    Weight("encoder.stack.embedding_projection.{p}", "albert.encoder.embedding_hidden_mapping_in.{p}"),
    Weight(f"{_OURS}.attention.qkv.{{p}}", tuple(f"{_LAYER}.attention.{part}.{{p}}" for part in ("query", "key", "value")), QKV),
    Weight(f"{_OURS}.attention.out.{{p}}", f"{_LAYER}.attention.dense.{{p}}"),
    Weight(f"{_OURS}.attention_norm.{{p}}", f"{_LAYER}.attention.LayerNorm.{{p}}"),
    Weight(f"{_OURS}.feedforward.up.{{p}}", f"{_LAYER}.ffn.{{p}}"),
    Weight(f"{_OURS}.feedforward.down.{{p}}", f"{_LAYER}.ffn_output.{{p}}"),
    Weight(f"{_OURS}.feedforward_norm.{{p}}", f"{_LAYER}.full_layer_layer_norm.{{p}}"),
)


def _read_width(config: ForeignConfig, before: Settings) -> Settings:
    narrow = config.size("embedding_size", _WIDTH)
    if narrow == before["width"]:
        raise DataError(f"config.json: embedding_size is {narrow}, as hidden_size; firth has no projection between equal widths.")
    return {"embedding.width": narrow, "transform_activation": before["feedforward.activation"]}


def _read_groups(config: ForeignConfig, before: Settings) -> Settings:
    groups = config.size("num_hidden_groups", 1)
    return {"layer_groups": None if groups == before["depth"] else groups}


def why_not(model: Any, objective: str) -> str | None:
    if model.embedding_width == model.width:
        return "model.embedding.width = model.width"
    if objective == "masked" and model.transform_activation != model.feedforward.activation:
        return f"model.transform_activation = {model.transform_activation!r} with another model.feedforward.activation"
    return None


ALBERT = encoder_families(
    EncoderBody(
        title="ALBERT",
        model_type="albert",
        prefix="albert.",
        weights=WEIGHTS,
        config=bert.settings(
            bert.SEGMENTS,
            Entry(_read_width, lambda model: {"embedding_size": model.embedding_width}, ("embedding.width",)),
            Entry(_read_groups, lambda model: {"num_hidden_groups": model.layer_groups or model.depth}, ("layer_groups",)),
            expected("inner_group_num", 1),
            unused(*_UNUSED),
            activation=choice("feedforward.activation", "hidden_act", bert.ACTIVATIONS, default="gelu_new"),
        ),
        ignored=(
            "albert.embeddings.position_ids",
            "sop_classifier.classifier.{p}",  # whether two sentences are in order
        ),
        pooler=("tanh", "albert.pooler.weight"),
        why_not=why_not,
    ),
    (
        Head("embedding", "AlbertModel", (Weight("pooler.{p}", "albert.pooler.{p}"),)),
        dataclasses.replace(
            bert.masked_head(
                "AlbertForMaskedLM", "albert.", "predictions.", "dense", "LayerNorm", also=("AlbertForPreTraining",)
            ),
            limited={"transform_activation": tuple(dict.fromkeys(bert.ACTIVATIONS.values()))},
        ),
        *labelling_heads("Albert", "albert.pooler.{p}"),
    ),
)
