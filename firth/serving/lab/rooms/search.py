"""Search: documents for a query by shared words, by averaged word vectors and by contextual vectors, side by side."""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.errors import DataError
from firth.figures.figure import Table
from firth.progress import Progress
from firth.search.documents import Document, first_lines
from firth.search.index import Hit, Index, MethodName, build
from firth.search.recall import Query, Subject, measure, paraphrases
from firth.search.tfidf import words_of
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, named
from firth.tasks.ability import ANSWER, CLASSIFY, EMBED, TAG

if TYPE_CHECKING:
    from firth.serving.lab.run_facts import RunFacts
    from firth.tasks.run import Run
    from firth.vectors import WordVectors

SHIPPED = "paraphrases"  # firth's own documents, on which recall is measured
PROGRAMS = "programs"  # and those for models that were trained on documentation
_SUBJECTS: dict[str, Subject] = {SHIPPED: "everyday", PROGRAMS: "programs"}
_ENOUGH = 0.9  # of the words of all queries about a subject, for a model that knows enough of it
MOST_DOCUMENTS = 2000  # of a corpus: its first lines
_UNKNOWN: dict[MethodName, tuple[str, str]] = {  # some words of the query, or all of them
    "tfidf": ("No document contains", "No document contains a word of the query"),
    "vectors": ("Not in the vocabulary, and left out", "The vocabulary of these vectors has no word of the query"),
    "contextual": ("Unknown to this run", "This run knows no word of the query"),
}
_LABELS: dict[MethodName, str] = {"tfidf": "TF-IDF", "vectors": "averaged word vectors", "contextual": "contextual vectors"}
_NONE = Choice("", "none")
_SHOWN = 400  # characters of a document
_KEPT = 4  # indexes
_TRIED = 10  # documents among which the one of a query is looked for
_WORD = re.compile(r"\w+(?:['’-]\w+)*")

Key = tuple[str, int, int, int]
_indexes: dict[Key, _Kept] = {}
_lock = threading.Lock()


def ranking(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The best documents for a query by each method that is possible."""
    asked, top = request.text("query", "", most=500).strip(), request.number("top", int, 5, least=1, most=50)
    chosen = request.settings.get("query") is None  # by the room, which opens with it
    if not asked and not chosen:
        raise DataError("the query is empty; write one or more words")
    documents = _chosen_documents(request, library, progress) if chosen else _documents_asked(request, library)
    with _index(documents, request, library, progress) as (index, note), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a method does not know is named beside its documents
        query = _opening(index, _SUBJECTS.get(documents, "everyday")) if chosen else asked
        hits_of, unknown_of = _searched(index, query, top), index.unknown(query)
    methods = [
        {
            "name": name,
            "label": _LABELS[name],
            "hits": [_shown(hit, query) for hit in hits],
            "unknown": _unknown(name, unknown_of[name], query),
        }
        for name, hits in hits_of.items()
    ]
    rows = [
        (_LABELS[name], str(n), f"{hit.score:.4f}", hit.document.name, _cut(hit.document.text))
        for name, hits in hits_of.items()
        for n, hit in enumerate(hits, start=1)
    ]
    python = (
        f"import firth\n\n{_documents_code(documents)}"
        f"index = firth.search.build(documents{_settings_code(request, library)})\n"
        f"hits_of = index.search({query!r}, top={top})\n"
        "for method, hits in hits_of.items():\n"
        "    print(method, [(round(hit.score, 4), hit.document.text) for hit in hits])\n"
    )
    facts = {"query": query, "name": documents, "documents": len(index.documents), "methods": methods, "note": note}
    return ViewResult({}, python, facts, Table(("method", "rank", "score", "document", "text"), rows))


def recall(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Recall and mean reciprocal rank on firth's own queries."""
    top, documents = request.number("top", int, 10, least=1, most=50), _documents_asked(request, library)
    if documents not in _SUBJECTS:
        raise DataError("recall needs queries, which only firth's own documents have. Choose other documents.")
    with _index(documents, request, library, progress) as (index, note), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = measure(index, paraphrases(_SUBJECTS[documents])[1], top)
    rows = [(_LABELS[name], f"{one.recall:.3f}", f"{one.first:.3f}", f"{one.mrr:.3f}") for name, one in measured.items()]
    python = (
        f"import firth\n\ndocuments, queries = firth.search.paraphrases({_subject_code(documents)})\n"
        f"index = firth.search.build(documents{_settings_code(request, library)})\n"
        f"measured = firth.search.measure(index, queries, top={top})\n"
        "print(measured)\n"
    )
    queries = next(iter(measured.values())).queries
    headings = (f"{queries} queries", f"recall@{top}", "recall@1", "mean reciprocal rank")
    return ViewResult({}, python, {"queries": queries, "note": note}, Table(headings, rows))


@contextlib.contextmanager
def _index(documents: str, request: ViewRequest, library: RunLibrary, progress: Progress) -> Iterator[tuple[Index, str]]:
    """The index of the documents with the vectors and the run that were chosen, and a note if one is missing. The latest few are
    kept, because embedding the documents takes longest."""
    vectors_name, run_name = request.text("vectors", ""), request.text("run", "")
    vectors = library.word_vectors(vectors_name) if vectors_name else None
    with contextlib.ExitStack() as held:
        run = held.enter_context(library.using(run_name, progress)) if run_name else None
        key = (documents, _modified(documents), id(vectors), id(run))  # what an index holds keeps its id
        with _lock:
            kept = _indexes.get(key)
        if kept is None:
            progress("reading the documents", 0, 1)
            kept = _built(_documents(documents), vectors, run, progress)
            with _lock:
                _indexes[key] = kept
                for old in list(_indexes)[:-_KEPT]:
                    del _indexes[old]
        yield kept.index, kept.note


@dataclass(frozen=True, eq=False)
class _Kept:
    index: Index
    note: str  # why the run is missing
    run: Run[Any] | None


def _built(documents: Sequence[Document], vectors: WordVectors | None, run: Run[Any] | None, progress: Progress) -> _Kept:
    """With all methods; without the run if it cannot read the documents, as a model of other characters cannot."""
    try:
        return _Kept(build(documents, vectors=vectors, run=run, lower=True, strip_punctuation=True, progress=progress), "", run)
    except DataError as error:
        if run is None:
            raise
        return _Kept(build(documents, vectors=vectors), f"The run cannot read these documents: {error}", run)


def _documents_asked(request: ViewRequest, library: RunLibrary) -> str:
    return request.choice("documents", (*_SUBJECTS, *library.corpora), SHIPPED)


def _chosen_documents(request: ViewRequest, library: RunLibrary, progress: Progress) -> str:
    """Those that the request names; otherwise firth's own about the subject whose words the model knows best."""
    if request.settings.get("documents") is not None:
        return _documents_asked(request, library)
    known: dict[str, float] = {}
    for name, subject in _SUBJECTS.items():
        with _index(name, request, library, progress) as (index, _):
            known[name] = _known(index, paraphrases(subject)[1])
        if known[name] >= _ENOUGH:
            return name
    return max(known, key=lambda name: known[name])


def _known(index: Index, queries: Sequence[Query]) -> float:
    """The share of the words of all queries that the model knows; 1 without a model."""
    methods = [method for name, method in index.methods.items() if name != "tfidf"]
    words = sum(len(words_of(query.text)) for query in queries)
    return max((1 - sum(len(method.unknown(query.text)) for query in queries) / words for method in methods), default=1)


def _opening(index: Index, subject: Subject) -> str:
    """Of firth's own queries, the one whose document is found best by meaning, and of those equally good rather one whose
    document TF-IDF does not find. Without a model, the first one."""
    queries = paraphrases(subject)[1]

    def key(query: Query) -> tuple[int, bool]:
        ranks = {name: _rank(hits, query) for name, hits in _searched(index, query.text, _TRIED).items()}
        by_words = ranks.pop("tfidf")
        return min(ranks.values(), default=0), bool(ranks) and by_words < _TRIED

    return min(queries, key=key).text


def _rank(hits: Sequence[Hit], query: Query) -> int:
    """How many documents stand above the one that belongs to the query."""
    return next((n for n, hit in enumerate(hits) if hit.document.name in query.relevant), _TRIED)


def _unknown(method: MethodName, words: Sequence[str], query: str) -> str:
    """A sentence that names the words of the query that a method does not know; "" if it knows them all."""
    if not words:
        return ""
    some, all_ = _UNKNOWN[method]
    return f"{all_ if len(words) >= len(set(words_of(query))) else some}: {', '.join(words)}."


def _searched(index: Index, query: str, top: int) -> dict[MethodName, list[Hit]]:
    """By each method; a run that cannot read the query finds nothing."""
    hits_of: dict[MethodName, list[Hit]] = {}
    for name, method in index.methods.items():
        try:
            hits_of |= Index(index.documents, {name: method}).search(query, top)
        except DataError:
            hits_of[name] = []
    return hits_of


def _documents(name: str) -> list[Document]:
    return paraphrases(_SUBJECTS[name])[0] if name in _SUBJECTS else first_lines(name, MOST_DOCUMENTS)


def _modified(name: str) -> int:
    """When a file was changed; 0 for a named data set."""
    path = Path(name).expanduser()
    return path.stat().st_mtime_ns if name not in _SUBJECTS and path.exists() else 0


def _shown(hit: Hit, query: str) -> dict[str, Any]:
    """A hit for the page: its text in parts, of which those that are words of the query are marked."""
    asked, text = set(words_of(query)), _cut(hit.document.text)
    parts: list[dict[str, object]] = []
    end = 0
    for match in _WORD.finditer(text):
        if match.group().lower() in asked:
            parts += [{"text": text[end : match.start()], "mark": False}, {"text": match.group(), "mark": True}]
            end = match.end()
    parts.append({"text": text[end:], "mark": False})
    return {"document": hit.document.name, "score": hit.score, "parts": [part for part in parts if part["text"]]}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _documents_code(name: str) -> str:
    if name in _SUBJECTS:
        return f"documents, _ = firth.search.paraphrases({_subject_code(name)})\n"
    return f"documents = firth.search.first_lines({name!r}, {MOST_DOCUMENTS})\n"


def _subject_code(name: str) -> str:
    return "" if name == SHIPPED else repr(_SUBJECTS[name])


def _settings_code(request: ViewRequest, library: RunLibrary) -> str:
    vectors, run = request.text("vectors", ""), request.text("run", "")
    given = f", vectors={str(library.vectors[vectors])!r}" if vectors else ""
    return given + (f", run={str(library.path(run))!r}, lower=True, strip_punctuation=True" if run else "")


def _reads(facts: RunFacts) -> bool:
    """An encoder that was trained to read text, and not for a task that keeps little of what a text means."""
    return facts.family == "encoder" and not any(facts.can(one) for one in (TAG, CLASSIFY, ANSWER))


VIEWS = (
    Choice("ranking", "documents for a query", {"controls": ["query", "documents", "vectors", "run", "top"]}),
    Choice("recall", "recall on firth's own queries", {"controls": ["documents", "vectors", "run"]}),
)


OWN = Choice(SHIPPED, "100 short documents"), Choice(PROGRAMS, "30 short documents about programs")


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    runs = library.runs_that_can(EMBED)
    encoders = [name for name in runs if _reads(library.facts(name))]
    others = named(name for name in runs if name not in encoders)
    return {
        "look": VIEWS,
        "documents": (*OWN, *named(library.corpora)),
        "vectors": (*named(library.vectors), _NONE),
        "run": (*named(encoders), _NONE, *others),
    }


ROOM = Room(
    "search",
    "Search",
    "Documents for a query by shared words, by word vectors and by contextual vectors, side by side.",
    {"ranking": ranking, "recall": recall},
    choices=offered,
    notice="A document can be found by meaning although it shares no word with the query.",
    examples=(
        Example("Random numbers", {"look": "ranking", "query": "random numbers", "documents": PROGRAMS}),
        Example("Seattle motel", {"look": "ranking", "query": "Seattle motel", "documents": SHIPPED}),
        Example("Which method finds more", {"look": "recall"}),
    ),
)
