"""UMT5 (Chung et al. 2023): mT5 with a table of relative positions in each layer, instead of one for all layers.

`transformers` 5 divides the output layer's input by √width, whatever tie_word_embeddings is, and also if the checkpoint has an
output layer of its own. Earlier versions do not divide where tie_word_embeddings is false, as in Google's checkpoints. We do as
version 5 and warn; the most probable token is the same.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from firth.interop.families.t5 import T5, read_output, shape, weight_map, write_tied
from firth.interop.files.config_map import Entry, Settings, always
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap

_TABLES = tuple(
    Weight(
        f"{side}.blocks.{{n}}.attention.attend.table_NH",
        f"{side}.block.{{n}}.layer.0.SelfAttention.relative_attention_bias.weight",
    )
    for side in ("encoder", "decoder")
)

_SCALED = (
    "config.json sets tie_word_embeddings = false. Like transformers 5, firth divides the input of the output layer by √width "
    "nevertheless; to compute as transformers 4 did, import the model and set model.output_scale = false in recipe.toml."
)


def weights(model: Any) -> WeightMap:
    of_t5 = weight_map(model)
    return dataclasses.replace(of_t5, weights=(*_TABLES, *of_t5.weights))


def _read_output(config: ForeignConfig, before: Settings) -> Settings:
    if not config.expect("tie_word_embeddings", True, False):
        warnings.warn(_SCALED, stacklevel=2)
    config.expect("scale_decoder_outputs", True)
    return read_output(config, scaled=True)


UMT5 = dataclasses.replace(
    T5,
    title="UMT5",
    model_type="umt5",
    architecture="UMT5ForConditionalGeneration",
    weights=weights,
    config=(
        *shape("gated-gelu"),
        Entry(_read_output, write_tied, ("tied",), {"output_scale": (True,)}),
        always("position.per_layer", True),
    ),
)
