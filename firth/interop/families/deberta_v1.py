"""DeBERTa as first published (He et al. 2021): as v2, without ranges of distance or a norm on their vectors. Its keys have no
biases, and queries, keys and values are one matrix, in which they alternate by head.
"""

from __future__ import annotations

from firth.interop.families import bert, deberta
from firth.interop.families.encoders import EncoderBody, encoder_families
from firth.interop.files.config_map import always, unwritten
from firth.interop.files.weight_map import Weight, alternating, stacked

_OURS, _ATTENTION = "encoder.stack.blocks.{n}.attention", "deberta.encoder.layer.{n}.attention.self"
_BIASES = stacked(lambda settings: (settings.attention.heads * settings.per_head,) * 2)  # of queries and values
WEIGHTS = (
    Weight(f"{_OURS}.qkv.weight", f"{_ATTENTION}.in_proj.weight", alternating(lambda _: None)),
    Weight(f"{_OURS}.query_value_bias", (f"{_ATTENTION}.q_bias", f"{_ATTENTION}.v_bias"), _BIASES),
    Weight(f"{_OURS}.position_query.{{p}}", f"{_ATTENTION}.pos_q_proj.{{p}}"),
    Weight(f"{_OURS}.position_key.weight", f"{_ATTENTION}.pos_proj.weight"),
    Weight("encoder.stack.relative.table_Rd", "deberta.encoder.rel_embeddings.weight"),
    *bert.layers("deberta."),
)
DEBERTA_V1 = encoder_families(
    EncoderBody(
        title="DeBERTa v1",
        model_type="deberta",
        prefix="deberta.",
        weights=WEIGHTS,
        config=(
            *deberta.SHAPE,
            unwritten("talking_head", False),
            always("attention.key_bias", False),
            always("position.buckets", None),
            always("position.projections", "own"),
            always("position.norm", False),
        ),
        ignored=(*deberta.IGNORED, "deberta.embeddings.position_embeddings.weight"),  # which the input does not have
    ),
    deberta.heads("Deberta"),
)
