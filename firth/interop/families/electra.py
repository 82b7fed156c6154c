"""ELECTRA (Clark et al. 2020): BERT whose token embeddings may be narrower than its layers, as a discriminator, which finds
replaced tokens, or as a generator, a masked language model.

A published discriminator comes without its generator, so that it can be used, but not trained further on the same task.
"""

from __future__ import annotations

from firth.interop.families import bert
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.files.config_map import Entry, Settings, unused
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight

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


def _read_width(config: ForeignConfig, before: Settings) -> Settings:
    narrow = config.size("embedding_size")
    return {"embedding.width": None if narrow == before["width"] else narrow}


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
        config=bert.settings(
            bert.SEGMENTS,
            Entry(_read_width, lambda model: {"embedding_size": model.embedding_width}, ("embedding.width",)),
            # The sizes are those of the model that it was trained with.
            unused("summary_last_dropout", "generator_hidden_size", "generator_size"),
        ),
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
        *labelling_heads("Electra", "classifier.dense.{p}", "gelu", "classifier.out_proj.{p}"),
    ),
)
