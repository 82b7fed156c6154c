"""--format hf: a folder that `transformers` opens, with the same logits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from firth.errors import ConfigError
from firth.interop import family_of
from firth.interop.formats.hugging_face import Export
from firth.interop.formats.outgoing import Outgoing
from firth.models import TransformerLM


def write_hugging_face(run: Outgoing, folder: Path) -> None:
    family = family_of(run.model, run.objective.kind, run.imported)
    if family.model == "language" and not isinstance(run.network, TransformerLM):
        raise ConfigError(f"only a language model itself can be exported; this run is {run.noun}.")
    if family.model == "seq2seq" and not run.pairs:
        raise ConfigError(f"of the encoder–decoders, only translators can be exported; this run is {run.noun}.")
    if run.source_tokenizer is not run.tokenizer:
        raise ConfigError(
            "this translator has a vocabulary for each side, and `transformers` expects one. Set tokenizer.joint = true."
        )
    card = dataclasses.replace(run.card, family=family.title, auto_class=family.auto_class).markdown()
    weights = run.network.state_dict()
    Export(family, run.model, weights, run.tokenizer, run.sampling, card, run.labels, run.objective).write(folder)
