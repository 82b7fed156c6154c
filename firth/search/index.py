"""build() reads documents and makes an Index, which ranks them for a query, by one method or by several."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError, did_you_mean, option
from firth.files import exists, load_tensors, save_tensors
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.search.dense import AveragedVectors, ContextualVectors, Dense, Embedder
from firth.search.documents import Document, fingerprint, read_documents
from firth.search.tfidf import TfIdf
from firth.text.readers.reader import Format
from firth.vectors.firth_file import is_safetensors

if TYPE_CHECKING:
    from firth.tasks.run import Run
    from firth.vectors.wordvectors import WordVectors


MethodName = Literal["tfidf", "vectors", "contextual"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
_GIVE = {"vectors": f"Give a file with {option('vectors')}", "contextual": f"Give one with {option('run')}"}
FORMAT, VERSION = "firth-index", "2"
Arrays = Mapping[str, NDArray[Any]]
Method = TfIdf | Dense  # `scores` has one number per document, or is None if the query means nothing to the method


@dataclass(frozen=True)
class Hit:
    """A document that a search found."""

    document: Document  # its name and text
    score: float  # cosine


@dataclass(frozen=True, eq=False, repr=False)
class Index:
    """Documents, and the methods that rank them."""

    documents: Sequence[Document]
    methods: Mapping[MethodName, Method]

    def __repr__(self) -> str:
        return f"<Index: {len(self.documents):,} documents; {', '.join(self.methods)}>"

    def search(self, query: str, top: int = 10) -> dict[MethodName, list[Hit]]:
        """The `top` documents for the `query` by each method, best first; of equal scores, the earlier document first.

        TF-IDF only finds documents that share a word with the query."""
        if not query.strip():
            raise DataError("the query is empty; give at least one word")
        if top < 1:
            raise ConfigError(f"top is {top}; expected at least 1")
        return {name: self._hits(name, query, top) for name in self.methods}

    def unknown(self, query: str) -> dict[MethodName, list[str]]:
        """The words of the `query` that each method does not know. They count for nothing in its scores."""
        return {name: method.unknown(query) for name, method in self.methods.items()}

    def _hits(self, name: MethodName, query: str, top: int) -> list[Hit]:
        method = self.methods[name]
        score_N = method.scores(query)
        if score_N is None:
            words = ", ".join(method.unknown(query))
            warnings.warn(f"no word of the query is in the vocabulary, so {name} finds nothing: {words}", stacklevel=3)
            return []
        order = np.argsort(-score_N, kind="stable")[:top].tolist()
        return [Hit(self.documents[n], float(score_N[n])) for n in order if name != "tfidf" or score_N[n] > 0]


@shows_progress
def build(
    documents: str | os.PathLike[str] | Sequence[str | Document],
    *,
    vectors: WordVectors | str | os.PathLike[str] | None = None,
    run: Run[Any] | str | os.PathLike[str] | None = None,
    methods: Sequence[str] | None = None,
    layer: int = -1,
    lower: bool = False,
    strip_punctuation: bool = False,
    file: str | os.PathLike[str] | None = None,
    format: Format = "auto",
    field: str = "text",
    progress: Progress | bool = True,
) -> Index:
    """An index of `documents`: a folder, a file, or a list of texts.

    `methods`: by default TF-IDF, "vectors" if `vectors` are given, and "contextual" if a `run` is given; `layer` is that of
    `Run.embed`, and `lower` and `strip_punctuation` prepare the texts for the run. `file` keeps the index: what is in it is used
    again, and what was made from other documents or from another model is made anew."""
    progress = followed(progress)
    chosen = _chosen(methods, vectors is not None, run is not None)
    all_documents = _documents(documents, format, field, progress)
    texts = [document.text for document in all_documents]
    index_file = IndexFile.opened(file, fingerprint(all_documents))
    tfidf = TfIdf.from_arrays(index_file.part("tfidf", lambda: "", lambda: TfIdf.of(texts).arrays()))
    made: dict[MethodName, Method] = {}
    for name in chosen:
        match name:
            case "tfidf":
                made[name] = tfidf
            case "vectors":
                made[name] = _dense(name, AveragedVectors(_vectors(vectors, progress), tfidf), texts, index_file)
            case "contextual":
                embedder = ContextualVectors(_run(run), layer, lower, strip_punctuation, progress)
                documented = _dense(name, embedder, texts, index_file)
                made[name] = replace(documented, embedder=replace(embedder, progress=silent))  # a query is short
    index_file.save()
    return Index(all_documents, made)


def _chosen(methods: Sequence[str] | None, vectors: bool, run: bool) -> list[MethodName]:
    given: dict[MethodName, bool] = {"tfidf": True, "vectors": vectors, "contextual": run}
    if methods is None:
        return [name for name in METHODS if given[name]]
    for name in methods:
        if name not in METHODS:
            raise ConfigError(f'unknown method "{name}".{did_you_mean(name, METHODS)}')
        if not given[name]:
            raise ConfigError(f'method "{name}" needs {"word vectors" if name == "vectors" else "a run"}. {_GIVE[name]}')
    return [name for name in METHODS if name in methods]


def _documents(
    documents: str | os.PathLike[str] | Sequence[str | Document], format: Format, field: str, progress: Progress
) -> list[Document]:
    if isinstance(documents, (str, os.PathLike)):
        return read_documents(documents, format, field, progress)
    named = [one if isinstance(one, Document) else Document(str(number), one) for number, one in enumerate(documents, start=1)]
    if not named:
        raise DataError("the list of documents is empty; give at least one")
    return named


def _vectors(vectors: WordVectors | str | os.PathLike[str] | None, progress: Progress) -> WordVectors:
    from firth.vectors.formats import load
    from firth.vectors.wordvectors import WordVectors

    return vectors if isinstance(vectors, WordVectors) else load(Path(vectors or ""), progress=progress)


def _run(run: Run[Any] | str | os.PathLike[str] | None) -> Run[Any]:
    from firth.api import load
    from firth.tasks.run import Run

    return run if isinstance(run, Run) else load(Path(run or ""))


def _dense(name: MethodName, embedder: Embedder, texts: Sequence[str], index_file: IndexFile) -> Dense:
    arrays = index_file.part(name, lambda: embedder.sha256, lambda: {"vectors": embedder(texts)})
    return Dense(embedder, arrays["vectors"])


@dataclass
class IndexFile:
    """Document vectors and inverted index in one safetensors file, so that documents are embedded only once. A part is the arrays
    of one method; the header says from which documents and which model it was made, and a part made from others is not used."""

    path: Path | None  # None: nothing is kept
    documents: str  # fingerprint
    made_from: dict[str, str]  # method → fingerprint of its model
    arrays: dict[str, Arrays]
    changed: bool = False

    @classmethod
    def opened(cls, file: str | os.PathLike[str] | None, documents: str) -> IndexFile:
        """The file at `file`, without the parts that were made from other documents."""
        path = Path(file).expanduser() if file is not None else None
        before, made_from, arrays = _read(path) if path is not None and exists(path) else ("", {}, {})
        return cls(path, documents, made_from, arrays) if before == documents else cls(path, documents, {}, {})

    def part(self, method: str, made_from: Callable[[], str], make: Callable[[], Arrays]) -> Arrays:
        """The stored part, or, if there is none or it was made from another model, a new one."""
        if self.path is None:
            return make()
        model = made_from()
        if self.made_from.get(method) != model:
            self.arrays[method], self.made_from[method], self.changed = make(), model, True
        return self.arrays[method]

    def save(self) -> None:
        if self.path is None or not self.changed:
            return
        import torch

        tensors = {
            f"{method}.{name}": torch.tensor(np.asarray(array))
            for method, arrays in self.arrays.items()
            for name, array in arrays.items()
        }
        facts = {"format": FORMAT, "version": VERSION, "documents": self.documents, "made_from": json.dumps(self.made_from)}
        save_tensors(self.path, tensors, facts)
        self.changed = False


def _read(path: Path) -> tuple[str, dict[str, str], dict[str, Arrays]]:
    """Documents, models and parts. A file of another kind is an error, so that it is never overwritten."""
    if path.is_dir() or not _is_safetensors(path):
        raise DataError(f"{path} is not an index of `firth search`. Choose another file")
    tensors, metadata = load_tensors(path)
    if metadata.get("format") != FORMAT:
        raise DataError(f"{path} is not an index of `firth search`. Choose another file")
    if metadata.get("version") != VERSION:
        return "", {}, {}  # of another version of firth: everything is made anew
    made_from: dict[str, str] = json.loads(metadata["made_from"])
    arrays: dict[str, dict[str, NDArray[Any]]] = {method: {} for method in made_from}
    for name, tensor in tensors.items():
        method, _, array = name.partition(".")
        arrays[method][array] = tensor.numpy()
    return metadata["documents"], made_from, dict(arrays)


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        return is_safetensors(file.read(9))
