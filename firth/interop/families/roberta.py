"""RoBERTa (Liu et al. 2019): BERT with one segment, whose table of positions has two rows before that of the first token, and
XLM-RoBERTa and CamemBERT, which differ in their tokenizers only.

The two rows come from counting positions from the id of padding, 1; padding has the second of them, nothing the first.
"""

from __future__ import annotations

from firth.interop.families import bert
from firth.interop.families.encoders import EncoderBody, Head, encoder_families, labelling_heads
from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, Settings
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import BEHIND_TWO, Weight

_PADDING = 1  # the id that all of them have
_BEFORE = _PADDING + 1


def _read_context(config: ForeignConfig, before: Settings) -> Settings:
    config.expect("pad_token_id", _PADDING)
    return {"context": config.size("max_position_embeddings") - _BEFORE}


CONTEXT = Entry(
    _read_context, lambda model: {"pad_token_id": _PADDING, "max_position_embeddings": model.context + _BEFORE}, ("context",)
)


def _families(title: str, model_type: str, name: str) -> tuple[Family, ...]:
    return encoder_families(
        EncoderBody(
            title=title,
            model_type=model_type,
            prefix="roberta.",
            weights=(
                *bert.layers("roberta."),
                Weight("encoder.stack.position.table_Td", "roberta.embeddings.position_embeddings.weight", BEHIND_TWO),
            ),
            config=bert.settings(bert.SEGMENTS, context=CONTEXT),
            ignored=("roberta.embeddings.position_ids", "roberta.pooler.dense.{p}"),
            pooler=("tanh", "roberta.pooler.dense.weight"),
        ),
        (
            Head("embedding", f"{name}Model", (Weight("pooler.{p}", "roberta.pooler.dense.{p}"),)),
            bert.masked_head(f"{name}ForMaskedLM", "roberta.", "lm_head.", "dense", "layer_norm"),
            *labelling_heads(name, "classifier.dense.{p}", output="classifier.out_proj.{p}"),
        ),
    )


ROBERTA = (
    *_families("RoBERTa", "roberta", "Roberta"),
    *_families("XLM-RoBERTa", "xlm-roberta", "XLMRoberta"),
    *_families("CamemBERT", "camembert", "Camembert"),
)
