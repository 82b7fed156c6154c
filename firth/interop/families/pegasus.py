"""Pegasus (Zhang et al. 2020), which summarises: Marian with LayerNorm before each sublayer, and after the last layer."""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.errors import DataError
from firth.interop.families.bart import FINAL_NORMS, LAYERS, read_shape, write_shape
from firth.interop.families.marian import MARIAN, REPEATED, STORED, read_positions
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap
from firth.models import TransformerSeq2SeqConfig
from firth.models.config import transformer


def read(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    config.expect("normalize_embedding", False)
    config.expect("static_position_embeddings", True)
    shape = read_shape(config, "pre") | read_positions(config)
    for name in STORED:
        rows = config.tensors.get(name, (shape["context"],))[0]
        if rows != shape["context"]:
            raise DataError(f"{name} has {rows:,} rows, but max_position_embeddings in {config.name} is {shape['context']:,}.")
    return transformer(TransformerSeq2SeqConfig, shape)


def write(model: Any) -> dict[str, Any]:
    return {**write_shape(model), "scale_embedding": model.embedding.scale is not False}


PEGASUS = dataclasses.replace(
    MARIAN,
    title="Pegasus",
    model_type="pegasus",
    architecture="PegasusForConditionalGeneration",
    weights=WeightMap((*LAYERS, *FINAL_NORMS), repeated=REPEATED),
    read=read,
    write=write,
    limited={**MARIAN.limited, "norm.placement": ("pre",)},
)
