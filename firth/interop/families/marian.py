"""Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT: a Transformer as published in 2017, with the embedding as
output layer and a bias on the logits.

Pegasus (Zhang et al. 2020), which summarises: LayerNorm before each sublayer, and after the last layer.

Positions are sinusoidal, the sines in the first half of the vector and the cosines in the second. They are computed; where a
checkpoint stores them, they are only compared. The other names are BART's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from firth.errors import DataError
from firth.interop.families.bart import COPIES, FINAL_NORMS, LAYERS, shape
from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, Settings, always, expected, unused, unwritten
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap
from firth.layers.position.sinusoidal import sinusoid


def _positions(model: Any) -> Tensor:
    return sinusoid(torch.arange(model.context or 0), model.width, model.position.base, "halves")


STORED = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))  # tables of positions, in some files
REPEATED: dict[str, str | Callable[[Any], Tensor]] = {**COPIES, **dict.fromkeys(STORED, _positions)}
WEIGHTS = WeightMap(LAYERS, ignored=("lm_head.bias",), repeated=REPEATED)


def sinusoids(scaled: bool = False) -> tuple[Entry, ...]:
    """Sinusoidal positions, and the scale of the embedding that belongs to them; `scaled` where config.json says nothing."""
    return (
        unwritten("normalize_embedding", False),
        unwritten("static_position_embeddings", True),
        always("position.kind", "sinusoidal"),
        always("position.order", "halves"),
        Entry(
            lambda config, _: {"embedding.scale": None if config.expect("scale_embedding", scaled, not scaled) else False},
            lambda model: {"scale_embedding": model.embedding.scale is not False},
            limited={"embedding.scale": (None, True, False)},
        ),
    )


MARIAN = Family(
    title="Marian",
    model_type="marian",
    architecture="MarianMTModel",
    objective="translation",
    weights=WEIGHTS,
    config=(
        *shape(),
        *sinusoids(),
        expected("share_encoder_decoder_embeddings", True),
        unused("decoder_vocab_size"),  # that of the source, which it shares
    ),
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)


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
