"""Recall of a search: the share of queries whose document it finds.

    recall@k = share of the relevant documents among the first k        MRR = mean of 1 / rank of the first relevant document

firth ships 100 short documents and 30 queries. Each query describes one document in other words; 15 of them also share a
content word with it, as "Seattle motel" does with "The hotel near the station in Seattle …". Another 30 documents and 15 queries
are about programs, in words that documentation uses; no query shares a word with its document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from firth.errors import ConfigError, DataError, did_you_mean
from firth.search.documents import Document, read_documents
from firth.search.index import Index, MethodName
from firth.text.readers.formats import records
from firth.text.readers.reader import Column

_FOLDER = Path(__file__).parent / "paraphrases"
Subject = Literal["everyday", "programs"]
_NAMES: dict[Subject, str] = {"everyday": "documents.txt queries.jsonl", "programs": "programs.txt programs.jsonl"}


@dataclass(frozen=True)
class Query:
    """A query and the documents that answer it."""

    text: str  # as it is searched for
    relevant: tuple[str, ...]  # names of documents


@dataclass(frozen=True)
class Recall:
    """Figures that say how well a method finds the documents that belong to queries."""

    recall: float  # recall@top
    first: float  # share of the queries whose first hit is relevant
    mrr: float  # within the first `top` documents; 0 where none of them is relevant
    queries: int  # number of queries
    top: int  # documents that were looked at


def paraphrases(subject: Subject = "everyday") -> tuple[list[Document], list[Query]]:
    """The documents and queries that firth ships. `subject`: "everyday" life, or "programs", for models that were trained on
    documentation."""
    if subject not in _NAMES:
        raise ConfigError(f'subject is "{subject}"; choose {" or ".join(_NAMES)}.{did_you_mean(subject, _NAMES)}')
    documents, queries = _NAMES[subject].split()
    return read_documents(_FOLDER / documents), read_queries(_FOLDER / queries)


def read_queries(path: str | Path) -> list[Query]:
    """The queries in `path`, a table with the columns "query" and "document", the name of a relevant document; a query may have
    several rows."""
    names_of: dict[str, list[str]] = {}
    for record in records(Path(path), [Column("query", setting=None), Column("document", setting=None)]):
        text, name = record.texts
        names_of.setdefault(text, []).append(name)
    if not names_of:
        raise DataError(f"{path} has no queries; expected at least one")
    return [Query(text, tuple(names)) for text, names in names_of.items()]


def measure(index: Index, queries: Sequence[Query], top: int = 10) -> dict[MethodName, Recall]:
    """Recall and mean reciprocal rank of every method of `index` over `queries`, within the first `top` documents."""
    names = {document.name for document in index.documents}
    for name in (name for query in queries for name in query.relevant):
        if name not in names:
            raise DataError(f'there is no document "{name}".{did_you_mean(name, names, listed=False)}')
    rank: dict[MethodName, list[list[int]]] = {method: [] for method in index.methods}
    for query in queries:
        for method, hits in index.search(query.text, top).items():
            rank[method].append([n for n, hit in enumerate(hits, start=1) if hit.document.name in query.relevant])
    return {method: _recall(ranks, queries, top) for method, ranks in rank.items()}


def _recall(rank_Q: Sequence[Sequence[int]], queries: Sequence[Query], top: int) -> Recall:
    count = len(queries)
    return Recall(
        recall=sum(len(ranks) / len(query.relevant) for ranks, query in zip(rank_Q, queries, strict=True)) / count,
        first=sum(1 in ranks for ranks in rank_Q) / count,
        mrr=sum(1 / min(ranks) for ranks in rank_Q if ranks) / count,
        queries=count,
        top=top,
    )
