"""Word vectors: count, train, search, evaluate, read and write them.

Names are imported on first use, so that opening a vectors file imports neither numba nor torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.vectors.cooccurrence import cooccur
    from firth.vectors.formats import load
    from firth.vectors.skipgram_pairs import pairs
    from firth.vectors.trainer import train
    from firth.vectors.wordvectors import WordVectors

__all__ = ["WordVectors", "cooccur", "load", "pairs", "train"]


def __getattr__(name: str) -> Any:
    match name:
        case "WordVectors":
            from firth.vectors.wordvectors import WordVectors

            return WordVectors
        case "cooccur":
            from firth.vectors.cooccurrence import cooccur

            return cooccur
        case "load":
            from firth.vectors.formats import load

            return load
        case "pairs":
            from firth.vectors.skipgram_pairs import pairs

            return pairs
        case "train":
            from firth.vectors.trainer import train

            return train
    raise AttributeError(f"module 'firth.vectors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
