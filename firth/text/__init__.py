"""Text: readers, tokenizers, token files, data sets, and batches whose position is one integer.

Names are imported when first used, so that a submodule does not load all the others."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.progress import Progress
    from firth.text.batches.token_files import TokenFile, token_file
    from firth.text.batches.windows import Streams, TokenBatch, Windows, sweep, sweep_streams
    from firth.text.cache import cache_folder
    from firth.text.config import (
        CaptionsConfig,
        DataConfig,
        LabelledConfig,
        LinearConfig,
        PairsConfig,
        QuestionsConfig,
        SwapsConfig,
        TaggedConfig,
        TokenizerConfig,
    )
    from firth.text.data.running_text import Prepared, encode_file, learn_tokenizer, prepare, read_text, running_text
    from firth.text.datasets.docs import docs_corpus
    from firth.text.readers.corpus import Corpus, Scan, find, inline, scan
    from firth.text.readers.pieces import Piece
    from firth.text.tokenizers.tokenizer import Tokenizer

_HOME = {
    "firth.progress": ("Progress",),
    "firth.text.batches.token_files": ("TokenFile", "token_file"),
    "firth.text.batches.windows": ("TokenBatch", "Streams", "Windows", "sweep", "sweep_streams"),
    "firth.text.cache": ("cache_folder",),
    "firth.text.config": (
        "CaptionsConfig",
        "DataConfig",
        "LabelledConfig",
        "LinearConfig",
        "PairsConfig",
        "QuestionsConfig",
        "SwapsConfig",
        "TaggedConfig",
        "TokenizerConfig",
    ),
    "firth.text.data.running_text": ("Prepared", "encode_file", "learn_tokenizer", "prepare", "read_text", "running_text"),
    "firth.text.datasets.docs": ("docs_corpus",),
    "firth.text.readers.corpus": ("Corpus", "Scan", "find", "inline", "scan"),
    "firth.text.readers.pieces": ("Piece",),
    "firth.text.tokenizers.tokenizer": ("Tokenizer",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "CaptionsConfig",
    "Corpus",
    "DataConfig",
    "LabelledConfig",
    "LinearConfig",
    "PairsConfig",
    "Piece",
    "Prepared",
    "Progress",
    "QuestionsConfig",
    "Scan",
    "Streams",
    "SwapsConfig",
    "TaggedConfig",
    "TokenBatch",
    "TokenFile",
    "Tokenizer",
    "TokenizerConfig",
    "Windows",
    "cache_folder",
    "docs_corpus",
    "encode_file",
    "find",
    "inline",
    "learn_tokenizer",
    "prepare",
    "read_text",
    "running_text",
    "scan",
    "sweep",
    "sweep_streams",
    "token_file",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'firth.text' has no attribute {name!r}")
