"""mBART and mBART-50 (Liu et al. 2020; Tang et al. 2020): BART with LayerNorm before each sublayer, and after the
last layer. Tokens of their own say which language is read and which is written (text/tokenizers/languages.py)."""

from __future__ import annotations

import dataclasses

from firth.interop.families.bart import BART, COPIES, EMBEDDED, FINAL_NORMS, LAYERS, read_embedded, read_shape
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap
from firth.models import TransformerSeq2SeqConfig
from firth.models.config import transformer


def read(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    return transformer(TransformerSeq2SeqConfig, read_shape(config, "pre") | read_embedded(config))


MBART = dataclasses.replace(
    BART,
    title="mBART",
    model_type="mbart",
    architecture="MBartForConditionalGeneration",
    weights=WeightMap((*LAYERS, *EMBEDDED, *FINAL_NORMS), repeated=COPIES),
    read=read,
    limited={**BART.limited, "norm.placement": ("pre",)},
)
