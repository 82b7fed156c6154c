"""Pegasus (Zhang et al. 2020), which summarises: Marian with LayerNorm before each sublayer, and after the last layer."""

from __future__ import annotations

import dataclasses

from firth.errors import DataError
from firth.interop.families.bart import FINAL_NORMS, LAYERS, shape
from firth.interop.families.marian import MARIAN, REPEATED, STORED, sinusoids
from firth.interop.files.config_map import Entry, Settings
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap


def _check_stored(config: ForeignConfig, before: Settings) -> Settings:
    for name in STORED:
        rows = config.tensors.get(name, (before["context"],))[0]
        if rows != before["context"]:
            raise DataError(f"{name} has {rows:,} rows, but max_position_embeddings in {config.name} is {before['context']:,}.")
    return {}


PEGASUS = dataclasses.replace(
    MARIAN,
    title="Pegasus",
    model_type="pegasus",
    architecture="PegasusForConditionalGeneration",
    weights=WeightMap((*LAYERS, *FINAL_NORMS), repeated=REPEATED),
    config=(*shape("pre"), *sinusoids(), Entry(_check_stored)),
)
