"""Public models in, our models out. One file per family; `FAMILIES` is the only list of them.

To add one, write its file (gpt2.py is the shortest example) and put it here. Where several fit a model that is exported, the
first is taken."""

from __future__ import annotations

from pathlib import Path

from firth.interop.families.albert import ALBERT
from firth.interop.families.bart import BART, MBART
from firth.interop.families.bert import BERT
from firth.interop.families.bloom import BLOOM
from firth.interop.families.deberta import DEBERTA, DEBERTA_V1
from firth.interop.families.distilbert import DISTILBERT
from firth.interop.families.electra import ELECTRA
from firth.interop.families.falcon import FALCON
from firth.interop.families.family import Family
from firth.interop.families.gemma import GEMMA, GEMMA2, GEMMA3
from firth.interop.families.gpt2 import GPT2
from firth.interop.families.gpt_neox import GPT_NEOX
from firth.interop.families.llama import LLAMA, MISTRAL, OLMO2
from firth.interop.families.m2m100 import M2M_100
from firth.interop.families.marian import MARIAN, PEGASUS
from firth.interop.families.modernbert import MODERNBERT
from firth.interop.families.mpnet import MPNET
from firth.interop.families.opt import OPT
from firth.interop.families.phi3 import PHI3
from firth.interop.families.qwen import QWEN2, QWEN3
from firth.interop.families.roberta import ROBERTA
from firth.interop.families.t5 import MT5, T5, UMT5
from firth.interop.files.gguf_file import is_gguf
from firth.interop.formats import gguf_format, hugging_face
from firth.interop.formats.hugging_face import Export, ForeignModel, is_folder
from firth.models import ModelConfig

_DECODERS = (LLAMA, GPT2, MISTRAL, QWEN2, QWEN3, GPT_NEOX, BLOOM, GEMMA, GEMMA2, GEMMA3, OPT, FALCON, PHI3, OLMO2)
_ENCODERS = (*BERT, *ROBERTA, *DISTILBERT, *ELECTRA, *MODERNBERT, *DEBERTA, *ALBERT, *MPNET, *DEBERTA_V1)
FAMILIES: tuple[Family, ...] = (*_DECODERS, *_ENCODERS, T5, MT5, UMT5, BART, MARIAN, PEGASUS, MBART, M2M_100)


def open_folder(folder: Path) -> ForeignModel:
    """The public model in a Hugging Face folder, its weights not yet read."""
    return hugging_face.open_folder(folder, FAMILIES)


def is_model(path: Path) -> bool:
    """True if this looks like a public model: a Hugging Face folder or a GGUF file."""
    return is_folder(path) or is_gguf(path)


def open_model(path: Path) -> ForeignModel:
    """The public model in a Hugging Face folder or a GGUF file, its weights not yet read."""
    return gguf_format.open_gguf(path) if is_gguf(path) else open_folder(path)


def family_of(model: ModelConfig, objective: str | None = None, imported: str | None = None) -> Family:
    """The family as which a model of ours can be written, if possible the architecture that it was imported from; an error with
    the reasons if there is none. `objective` is objective.kind."""
    return hugging_face.chosen_family(model, FAMILIES, objective, imported)


__all__ = ["FAMILIES", "Export", "Family", "ForeignModel", "family_of", "is_folder", "is_model", "open_folder", "open_model"]
