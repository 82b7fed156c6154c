"""M2M-100 (Fan et al. 2021), NLLB-200 (NLLB Team 2022) and other translators of fairseq: Pegasus without a bias on the logits,
and with fairseq's sinusoids, whose first position is the number after the padding token's id. Tokens of their own say which
language is read and which is written (text/tokenizers/languages.py).

Padding has no position there: its vector is zero. Ours has one, so a decoder that begins with padding is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.errors import DataError
from firth.interop.families.bart import COPIES, FINAL_NORMS, LAYERS, shape
from firth.interop.families.marian import PEGASUS, sinusoids
from firth.interop.files.config_map import Entry, Settings, always
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap

_PADDING = 1  # their id of the padding token, where config.json does not say
_STORED = tuple(f"model.{side}.embed_positions.weights" for side in ("encoder", "decoder"))  # computed, and never read


def _read_first(config: ForeignConfig, before: Settings) -> Settings:
    padding, start = config.whole("pad_token_id", _PADDING), config.take("decoder_start_token_id")
    if padding < 0:
        raise DataError(f"{config.name}: pad_token_id is {padding}; expected a token.")
    if start == padding:
        raise DataError(
            f"{config.name}: the decoder begins with the padding token, {padding}, which has no position in this model. "
            "Set decoder_start_token_id to the token that ends a text."
        )
    return {"position.first": padding + 1}


def padding(model: Any) -> int:
    rows: int = model.position.first - 1
    return rows


M2M_100 = dataclasses.replace(
    PEGASUS,
    title="M2M-100",
    model_type="m2m_100",
    architecture="M2M100ForConditionalGeneration",
    weights=WeightMap((*LAYERS, *FINAL_NORMS), ignored=_STORED, repeated=COPIES),
    config=(
        *shape("pre", "relu", output_bias=False),
        *sinusoids(scaled=True),
        always("position.endpoint", True),
        Entry(_read_first, free=("position.first",)),
    ),
    padding=padding,
)
