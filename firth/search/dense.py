"""Documents as dense vectors, compared with the query by cosine.

    averaged word vectors:   x = Σ_w idf(w) v̂_w / Σ_w idf(w)            over the words of the text that have a vector
    contextual vectors:      x = mean over the tokens of the run's layer; of a sentence encoder, its own embedding
    score = cos(x_query, x_document)

A text of which the model knows no word is 0: it is like nothing.

Letters: N texts or documents, W words of a text, M passages, d dimension.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firth.progress import Progress, silent
from firth.search.tfidf import TfIdf
from firth.text.config import PairsConfig
from firth.text.data.sentence_pairs import sentence
from firth.vectors.encoding import without_punctuation

if TYPE_CHECKING:
    from firth.tasks.run import Run
    from firth.vectors.wordvectors import WordVectors

Floats = NDArray[np.float32]
_PASSAGE = 256  # tokens that a run reads at once; the vector of a longer document is the mean of its passages


@dataclass(frozen=True, eq=False)
class Dense:
    """The documents' vectors, and how a query becomes one."""

    embedder: Embedder
    vector_Nd: Floats

    def scores(self, query: str) -> Floats | None:
        """The cosine of every document with the query; None if the query has no vector."""
        query_d = self.embedder([query])[0]
        if not query_d.any():
            return None
        return np.asarray(self._unit_Nd @ _units(query_d[None])[0])

    def unknown(self, query: str) -> list[str]:
        """The words of the query that the model does not know."""
        return self.embedder.unknown(query)

    @cached_property
    def _unit_Nd(self) -> Floats:
        return _units(self.vector_Nd)


@dataclass(frozen=True, eq=False)
class AveragedVectors:
    """The idf-weighted mean of word vectors. A word without a vector is looked up in lower case, then skipped; a text without
    a known word is 0."""

    vectors: WordVectors
    tfidf: TfIdf

    def __call__(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._mean(text) for text in texts])

    def unknown(self, text: str) -> list[str]:
        return list(dict.fromkeys(word for word in _words(text) if self._id(word) is None))

    def _id(self, word: str) -> int | None:
        return self.vectors.index.get(word, self.vectors.index.get(word.lower()))

    def _mean(self, text: str) -> Floats:
        id_W, weight_W = [], []
        for word in _words(text):
            id = self._id(word)
            if id is not None:
                id_W.append(id)
                weight_W.append(self.tfidf.idf(word.lower()))
        if not id_W:
            return np.zeros(self.vectors.dim, np.float32)
        unit_Wd = self.vectors.vectors[id_W] / self.vectors.norm_V[id_W, None]
        return np.asarray(np.average(unit_Wd, axis=0, weights=weight_W), np.float32)

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256("\n".join(self.vectors.words).encode())
        digest.update(np.ascontiguousarray(self.vectors.vectors).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ContextualVectors:
    """The mean over the tokens of one layer of a run; a text that is <unk> throughout is 0."""

    run: Run[Any]
    layer: int = -1
    lower: bool = False
    strip_punctuation: bool = False
    progress: Progress = silent

    def __call__(self, texts: Sequence[str]) -> Floats:
        pieces = [self._passages(self._plain(text)) for text in texts]
        with warnings.catch_warnings():
            if len(texts) > 1:  # of documents, not of a query: many have words that the run has never seen
                warnings.filterwarnings("ignore", category=UserWarning)
            x_Md = self.run.embed([piece for some in pieces for piece in some], layer=self.layer, progress=self.progress)
        x_Md[[not self._knows(piece) for some in pieces for piece in some]] = 0
        ends = np.cumsum([len(some) for some in pieces])
        return np.stack([part_Md.mean(0) for part_Md in np.split(x_Md, ends[:-1])])

    def unknown(self, text: str) -> list[str]:
        tokenizer = self.run.source_tokenizer
        return list(dict.fromkeys(word for word in _words(self._plain(text)) if tokenizer.unseen(self._line(word))))

    def _knows(self, text: str) -> bool:
        tokenizer = self.run.source_tokenizer
        return tokenizer.unknown is None or bool((tokenizer.encode(self._line(text)) != tokenizer.unknown).any())

    def _line(self, text: str) -> str:
        """The text as the tokenizer gets it."""
        data = self.run.recipe.data
        return sentence(text, data) if isinstance(data, PairsConfig) else text

    def _plain(self, text: str) -> str:
        lowered = text.lower() if self.lower else text
        return without_punctuation(lowered) if self.strip_punctuation and without_punctuation(lowered).strip() else lowered

    def _passages(self, text: str) -> list[str]:
        """The text, halved between words until every part has at most _PASSAGE tokens, and no more than the run can read."""
        from firth.inspection.contextual_vectors import longest

        tokenizer = self.run.source_tokenizer
        special = len(tokenizer.begin) + len(tokenizer.end)
        room = min(_PASSAGE, longest(self.run.network) or _PASSAGE, self._own_limit)
        most = room - max(1, special)  # a source of sentence pairs also has <eos>
        words = text.split()
        if len(words) < 2 or len(tokenizer.encode(text)) <= most:
            return [text]
        half = len(words) // 2
        return [*self._passages(" ".join(words[:half])), *self._passages(" ".join(words[half:]))]

    @property
    def _own_limit(self) -> int:
        """Tokens after which a sentence encoder cuts a text."""
        return getattr(self.run.recipe.objective, "longest", None) or _PASSAGE

    @property
    def sha256(self) -> str:
        settings = (self.run.source_tokenizer.sha256, self.layer, self.lower, self.strip_punctuation)
        digest = hashlib.sha256(repr(settings).encode())
        for name, tensor in sorted(self.run.network.state_dict().items()):
            digest.update(name.encode() + tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


Embedder = AveragedVectors | ContextualVectors  # its sha256 changes with the model and its settings


def _words(text: str) -> list[str]:
    return without_punctuation(text).split()


def _units(x_Nd: Floats) -> Floats:
    norm_N = np.linalg.norm(x_Nd, axis=1)
    norm_N[norm_N == 0] = 1
    return np.asarray(x_Nd / norm_N[:, None])
