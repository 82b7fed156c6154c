"""--format hf: a folder that `transformers` opens, with the same logits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from firth.errors import ConfigError
from firth.interop import family_of
from firth.interop.hugging_face import Export
from firth.interop.outgoing import Outgoing
from firth.models import TransformerLM


def write_hugging_face(run: Outgoing, folder: Path) -> None:
    family = family_of(run.model, run.imported)
    if not (run.pairs or isinstance(run.network, TransformerLM)):
        raise ConfigError(f"only language models and translators can be exported, and this run is {run.is_a}.")
    if run.source_tokenizer is not run.tokenizer:
        raise ConfigError(
            "this translator has a vocabulary for each side, and `transformers` expects one. Set tokenizer.joint = true."
        )
    card = dataclasses.replace(run.card, family=family.title)
    Export(family, run.model, run.network.state_dict(), run.tokenizer, run.sampling, card.markdown()).write(folder)
