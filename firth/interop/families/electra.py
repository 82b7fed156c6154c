"""ELECTRA (Clark et al. 2020): BERT whose token embeddings may be narrower than its layers, as a discriminator, which finds
replaced tokens, or as a generator, a masked language model.

A published discriminator comes without its generator, so that it can be used, but not trained further on the same task.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.interop.families import bert
from firth.interop.families.encoders import SIZES, EncoderBody, Head, encoder_families
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight
from firth.models import TransformerEncoderConfig

_GENERATOR = (
    Weight("transform.{p}", "generator_predictions.dense.{p}"),
    Weight("norm.{p}", "generator_predictions.LayerNorm.{p}"),
    Weight("output_bias", "generator_lm_head.bias"),
    Weight("output.{p}", "generator_lm_head.{p}"),
)
_DISCRIMINATOR = (
    Weight("transform.{p}", "discriminator_predictions.dense.{p}"),
    Weight("output.{p}", "discriminator_predictions.dense_prediction.{p}"),
)


def read(config: ForeignConfig) -> TransformerEncoderConfig:
    config.take("summary_last_dropout")
    narrow = config.size("embedding_size")
    for size in ("generator_hidden_size", "generator_size"):
        config.take(size)  # of the model that it was trained with
    settings = bert.read(config)
    return dataclasses.replace(
        settings, embedding=dataclasses.replace(settings.embedding, width=None if narrow == settings.width else narrow)
    )


def write(model: Any) -> dict[str, Any]:
    return {**bert.write(model), "embedding_size": model.embedding_width}


ELECTRA = encoder_families(
    EncoderBody(
        title="ELECTRA",
        model_type="electra",
        prefix="electra.",
        weights=(
            *bert.layers("electra."),
            Weight("encoder.stack.position.table_Td", "electra.embeddings.position_embeddings.weight"),
            Weight("encoder.stack.embedding_projection.{p}", "electra.embeddings_project.{p}"),
        ),
        read=read,
        write=write,
        free=SIZES | {"embedding.width"},
        limited=bert.SHAPE,
        ignored=("electra.embeddings.position_ids",),
    ),
    (
        Head("embedding", "ElectraModel"),
        Head(
            "electra",
            "ElectraForPreTraining",
            _DISCRIMINATOR,
            limited=bert.GELU,
            objective_settings={"generator": 0.0},
            left_out="generator.",
        ),
        Head(
            "masked",
            "ElectraForMaskedLM",
            _GENERATOR,
            limited=bert.GELU,
            repeated={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
        ),
        Head(
            "classification",
            "ElectraForSequenceClassification",
            (Weight("pooler.{p}", "classifier.dense.{p}"), Weight("output.{p}", "classifier.out_proj.{p}")),
            {"pool": "first", "pooler": "gelu"},
        ),
        Head("tagging", "ElectraForTokenClassification", (Weight("output.{p}", "classifier.{p}"),)),
        Head("answer", "ElectraForQuestionAnswering", (Weight("output.{p}", "qa_outputs.{p}"),)),
    ),
)
