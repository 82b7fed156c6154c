"""Word vectors: count, train, search, evaluate, read and write them.

Names are imported on first use, so that opening a vectors file imports neither numba nor torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.vectors.cooccurrence import cooccur
    from firth.vectors.formats import load
    from firth.vectors.skipgram_pairs import pairs
    from firth.vectors.trainer import train
    from firth.vectors.wordvectors import WordVectors

_HOME = {
    "WordVectors": "wordvectors",
    "cooccur": "cooccurrence",
    "load": "formats",
    "pairs": "skipgram_pairs",
    "train": "trainer",
}

__all__ = ["WordVectors", "cooccur", "load", "pairs", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"firth.vectors.{_HOME[name]}"), name)
    raise AttributeError(f"module 'firth.vectors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
