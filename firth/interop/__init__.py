"""Public models in, our models out. One file per family; `FAMILIES` is the only list of them.

To add one, write its file (gpt2.py is the shortest example) and put it here. Where several fit a model that is exported, the
first is taken."""

from __future__ import annotations

from pathlib import Path

from firth.interop import hugging_face
from firth.interop.bert import BERT
from firth.interop.deberta import DEBERTA
from firth.interop.distilbert import DISTILBERT
from firth.interop.electra import ELECTRA
from firth.interop.family import Family
from firth.interop.gpt2 import GPT2
from firth.interop.hugging_face import Export, ForeignModel, is_folder
from firth.interop.llama import LLAMA
from firth.interop.modernbert import MODERNBERT
from firth.interop.roberta import ROBERTA
from firth.models import ModelConfig

FAMILIES: tuple[Family, ...] = (LLAMA, GPT2, *BERT, *ROBERTA, *DISTILBERT, *ELECTRA, *MODERNBERT, *DEBERTA)


def open_folder(folder: Path) -> ForeignModel:
    """The public model in a Hugging Face folder, its weights not yet read."""
    return hugging_face.open_folder(folder, FAMILIES)


def family_of(model: ModelConfig, objective: str | None = None, imported: str | None = None) -> Family:
    """The family as which a model of ours can be written, if possible the one that it was imported from; an error with the
    reasons if there is none. `objective` is objective.kind."""
    return hugging_face.chosen_family(model, FAMILIES, objective, imported)


__all__ = ["FAMILIES", "Export", "Family", "ForeignModel", "family_of", "is_folder", "open_folder"]
