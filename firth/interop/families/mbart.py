"""mBART and mBART-50 (Liu et al. 2020; Tang et al. 2020): BART with LayerNorm before each sublayer, and after the
last layer. Tokens of their own say which language is read and which is written (text/tokenizers/languages.py)."""

from __future__ import annotations

import dataclasses

from firth.interop.families.bart import BART, COPIES, EMBEDDED, EMBEDDED_CONFIG, FINAL_NORMS, LAYERS, shape
from firth.interop.files.weight_map import WeightMap

MBART = dataclasses.replace(
    BART,
    title="mBART",
    model_type="mbart",
    architecture="MBartForConditionalGeneration",
    weights=WeightMap((*LAYERS, *EMBEDDED, *FINAL_NORMS), repeated=COPIES),
    config=(*shape("pre"), *EMBEDDED_CONFIG),
)
