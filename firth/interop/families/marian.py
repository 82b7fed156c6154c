"""Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT: a Transformer as published in 2017, with the embedding as
output layer and a bias on the logits.

Its positions are sinusoidal, the sines in the first half of the vector and the cosines in the second. They are computed; where a
checkpoint stores them, they are only compared. The other names are BART's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from firth.interop.families.bart import COPIES, FREE, LAYERS, LIMITED, read_shape, write_shape
from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap
from firth.layers.position.sinusoidal import sinusoid
from firth.models import TransformerSeq2SeqConfig
from firth.models.config import transformer


def _positions(model: Any) -> Tensor:
    return sinusoid(torch.arange(model.context or 0), model.width, model.position.base, "halves")


STORED = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))  # tables of positions, in some files
REPEATED: dict[str, str | Callable[[Any], Tensor]] = {**COPIES, **dict.fromkeys(STORED, _positions)}
WEIGHTS = WeightMap(LAYERS, ignored=("lm_head.bias",), repeated=REPEATED)


def read(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    config.expect("normalize_embedding", False)
    config.expect("static_position_embeddings", True)
    config.expect("share_encoder_decoder_embeddings", True)
    config.take("decoder_vocab_size")  # that of the source, which it shares
    return transformer(TransformerSeq2SeqConfig, read_shape(config) | read_positions(config))


def read_positions(config: ForeignConfig, scaled: bool = False) -> dict[str, Any]:
    """Sinusoidal positions, and the scale of the embedding that belongs to them; `scaled` where config.json says nothing."""
    scale = None if config.expect("scale_embedding", scaled, not scaled) else False
    return {"position.kind": "sinusoidal", "position.order": "halves", "embedding.scale": scale}


def write(model: Any) -> dict[str, Any]:
    scaled = model.embedding.scale is not False
    return {**write_shape(model), "scale_embedding": scaled, "share_encoder_decoder_embeddings": True}


MARIAN = Family(
    title="Marian",
    model_type="marian",
    architecture="MarianMTModel",
    objective="translation",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=FREE,
    limited={**LIMITED, "position.kind": ("sinusoidal",), "position.order": ("halves",)},
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)
