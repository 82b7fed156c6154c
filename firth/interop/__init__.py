"""Public models in, our models out. One file per family; `FAMILIES` is the only list of them.

To add one, write its file (gpt2.py is the shortest example) and put it here. Where several fit a model that is exported, the
first is taken."""

from __future__ import annotations

from pathlib import Path

from firth.interop import hugging_face
from firth.interop.bart import BART
from firth.interop.family import Family
from firth.interop.gpt2 import GPT2
from firth.interop.hugging_face import Export, ForeignModel, is_folder
from firth.interop.llama import LLAMA
from firth.interop.marian import MARIAN
from firth.interop.t5 import MT5, T5
from firth.models import ModelConfig

FAMILIES: tuple[Family, ...] = (LLAMA, GPT2, T5, MT5, BART, MARIAN)


def open_folder(folder: Path) -> ForeignModel:
    """The public model in a Hugging Face folder, its weights not yet read."""
    return hugging_face.open_folder(folder, FAMILIES)


def family_of(model: ModelConfig) -> Family:
    """The family as which a model of ours can be written; an error with the reasons if there is none."""
    return hugging_face.chosen_family(model, FAMILIES)


__all__ = ["FAMILIES", "Export", "Family", "ForeignModel", "family_of", "is_folder", "open_folder"]
