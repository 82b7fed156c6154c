"""MPNet (Song et al. 2020): RoBERTa without segments, whose scores also have T5's bias for the distance, one for all layers."""

from __future__ import annotations

import dataclasses

from firth.interop.families import bert, roberta
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.files.config_map import Entry, Settings, always, unwritten
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import BEHIND_TWO, QKV, Weight

# The number of buckets is that of the table only; which distance has which one does not depend on config.json.
_BUCKETS, _FARTHEST = 32, 128

_OURS, _LAYER = "encoder.stack.blocks.{n}", "mpnet.encoder.layer.{n}"
WEIGHTS = (
    Weight("encoder.embedding.weight", "mpnet.embeddings.word_embeddings.weight"),
    Weight("encoder.stack.position.table_Td", "mpnet.embeddings.position_embeddings.weight", BEHIND_TWO),
    Weight("encoder.stack.position.table_NH", "mpnet.encoder.relative_attention_bias.weight"),
    Weight("encoder.stack.embedding_norm.{p}", "mpnet.embeddings.LayerNorm.{p}"),
    Weight(f"{_OURS}.attention.qkv.{{p}}", tuple(f"{_LAYER}.attention.attn.{part}.{{p}}" for part in "qkv"), QKV),
    Weight(f"{_OURS}.attention.out.{{p}}", f"{_LAYER}.attention.attn.o.{{p}}"),
    Weight(f"{_OURS}.attention_norm.{{p}}", f"{_LAYER}.attention.LayerNorm.{{p}}"),
    Weight(f"{_OURS}.feedforward.up.{{p}}", f"{_LAYER}.intermediate.dense.{{p}}"),
    Weight(f"{_OURS}.feedforward.down.{{p}}", f"{_LAYER}.output.dense.{{p}}"),
    Weight(f"{_OURS}.feedforward_norm.{{p}}", f"{_LAYER}.output.LayerNorm.{{p}}"),
)


def _read_buckets(config: ForeignConfig, before: Settings) -> Settings:
    config.take("type_vocab_size")  # it has no segments
    return {"position.buckets": config.expect("relative_attention_num_buckets", _BUCKETS)}


MPNET = encoder_families(
    EncoderBody(
        title="MPNet",
        model_type="mpnet",
        prefix="mpnet.",
        weights=WEIGHTS,
        config=(
            *bert.shape(),
            *bert.NO_DECODER,
            unwritten("position_embedding_type", "absolute"),
            roberta.CONTEXT,
            bert.ACTIVATION,
            always("segments", 0),
            always("position.kind", "learned_t5"),
            always("position.max_distance", _FARTHEST),
            Entry(
                _read_buckets,
                lambda model: {"relative_attention_num_buckets": model.position.buckets},
                limited={"position.buckets": (_BUCKETS,)},
            ),
        ),
        ignored=("mpnet.embeddings.position_ids", "mpnet.pooler.dense.{p}"),
        pooler=("tanh", "mpnet.pooler.dense.weight"),
    ),
    (
        Head("embedding", "MPNetModel", (Weight("pooler.{p}", "mpnet.pooler.dense.{p}"),)),
        dataclasses.replace(bert.masked_head("MPNetForMaskedLM", "mpnet.", "lm_head.", "dense", "layer_norm"), limited={}),
        *labelling_heads("MPNet", "classifier.dense.{p}", output="classifier.out_proj.{p}"),
    ),
)
