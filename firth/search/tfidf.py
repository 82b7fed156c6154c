"""TF-IDF: documents that share rare words with the query.

    idf(w) = 1 + ln((1 + N) / (1 + df(w)))        x_w = count(w) · idf(w)        score = cos(x_query, x_document)

df(w) is the number of documents that contain the word. An inverted index keeps, for each word, the documents that contain it
with their weight x_w / |x|, so that a query only looks at the words it has.
Letters: N documents, V words, P postings (word, document).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.vectors.encoding import without_punctuation

Floats = NDArray[np.float32]


def words_of(text: str) -> list[str]:
    """Lower case, without punctuation."""
    return without_punctuation(text.lower()).split()


def idf(documents: int, containing: int) -> float:
    return 1 + math.log((1 + documents) / (1 + containing))


@dataclass(frozen=True, eq=False)
class TfIdf:
    documents: int
    words: list[str]  # in alphabetical order
    start_V: NDArray[np.int64]  # the postings of word v are start_V[v] … start_V[v + 1]; V + 1 entries
    document_P: NDArray[np.int64]
    weight_P: Floats

    @classmethod
    def of(cls, texts: Sequence[str]) -> TfIdf:
        """The index of some texts."""
        counted = [Counter(words_of(text)) for text in texts]
        containing = Counter(word for counts in counted for word in counts)
        words = sorted(containing)
        postings: dict[str, list[tuple[int, float]]] = {word: [] for word in words}
        for number, counts in enumerate(counted):
            weights = {word: count * idf(len(texts), containing[word]) for word, count in counts.items()}
            length = math.sqrt(sum(weight**2 for weight in weights.values()))
            for word, weight in weights.items():
                postings[word].append((number, weight / length))
        flat = [posting for word in words for posting in postings[word]]
        return cls(
            len(texts),
            words,
            np.cumsum([0, *(len(postings[word]) for word in words)]).astype(np.int64),
            np.array([number for number, _ in flat], np.int64),
            np.array([weight for _, weight in flat], np.float32),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for the index file."""
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        return {"documents": np.array([self.documents]), "words": words, "start": self.start_V, "document": self.document_P,
                "weight": self.weight_P}  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> TfIdf:
        words = arrays["words"].tobytes().decode()
        return cls(
            int(arrays["documents"][0]), words.split("\n") if words else [], arrays["start"], arrays["document"], arrays["weight"]
        )

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.words)}

    def idf(self, word: str) -> float:
        n = self.index.get(word)
        return idf(self.documents, 0 if n is None else int(self.start_V[n + 1] - self.start_V[n]))

    def unknown(self, query: str) -> list[str]:
        """The words of the query that no document has."""
        return list(dict.fromkeys(word for word in words_of(query) if word not in self.index))

    def scores(self, query: str) -> Floats:
        """cos(x_query, x_n) of every document; words of the query that no document has are left out."""
        weights = {word: count * self.idf(word) for word, count in Counter(words_of(query)).items() if word in self.index}
        length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        score_N = np.zeros(self.documents, np.float32)
        for word, weight in weights.items():
            n = self.index[word]
            postings = slice(self.start_V[n], self.start_V[n + 1])
            score_N[self.document_P[postings]] += weight / length * self.weight_P[postings]  # a document occurs once per word
        return score_N
