"""Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT: a Transformer as published in 2017, with the embedding as
output layer and a bias on the logits.

Its positions are sinusoidal, the sines in the first half of the vector and the cosines in the second. They are computed; where a
checkpoint stores them, they are not read. The other names are BART's.
"""

from __future__ import annotations

from typing import Any

from firth.interop.bart import COPIES, FREE, LAYERS, LIMITED, read_shape, write_shape
from firth.interop.family import Family
from firth.interop.foreign_config import ForeignConfig
from firth.interop.weight_map import WeightMap
from firth.models import TransformerSeq2SeqConfig

WEIGHTS = WeightMap(
    LAYERS, ignored=(*COPIES, "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight", "lm_head.bias")
)


def read(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    config.expect("normalize_embedding", False)
    config.expect("static_position_embeddings", True)
    config.expect("share_encoder_decoder_embeddings", True)
    config.take("decoder_vocab_size")  # that of the source, which it shares
    scaled = config.expect("scale_embedding", False, True)
    return TransformerSeq2SeqConfig(
        **read_shape(config), position="sinusoidal", position_order="halves", embedding_scale=None if scaled else False
    )


def write(model: TransformerSeq2SeqConfig) -> dict[str, Any]:
    scaled = model.embedding_scale is not False
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
    limited={**LIMITED, "position": ("sinusoidal",), "position_order": ("halves",)},
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)
