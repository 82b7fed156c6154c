"""Search documents by meaning: TF-IDF, averaged word vectors and contextual vectors, side by side.

    index = firth.search.build("documents", vectors="wiki8.firth", run="runs/encoder")
    index.search("Seattle motel")["vectors"][0].document.text

Names are imported on first use, so that a search by TF-IDF does not wait for torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.search.documents import Document, first_lines, read_documents
    from firth.search.index import Hit, Index, build
    from firth.search.recall import Query, Recall, measure, paraphrases, read_queries

_HOME = {
    **dict.fromkeys(("Document", "first_lines", "read_documents"), "documents"),
    **dict.fromkeys(("Hit", "Index", "build"), "index"),
    **dict.fromkeys(("Query", "Recall", "measure", "paraphrases", "read_queries"), "recall"),
}

__all__ = [
    "Document", "Hit", "Index", "Query", "Recall", "build", "first_lines", "measure", "paraphrases", "read_documents",
    "read_queries",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"firth.search.{_HOME[name]}"), name)
    raise AttributeError(f"module 'firth.search' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
