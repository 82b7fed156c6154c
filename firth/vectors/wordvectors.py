"""WordVectors: words, their vectors, and the queries on them. Independent of how the vectors were trained.

    vectors = firth.vectors.load("v.firth")
    vectors["france"]                                              its vector
    vectors.most_similar("france")                                 [("spain", 0.81), …]
    vectors.analogy("spain", "madrid", "france")                   [("paris", 0.77), …]
    vectors.axis("good", "bad").highest()                          [("nice", 0.42), …]

Letters: V words, d dimension, Q queries, k answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.errors import ConfigError, DataError, index_range
from firth.vectors import search
from firth.vectors.axis import Axis, direction
from firth.vectors.similar_spellings import near_spellings

if TYPE_CHECKING:
    from torch import Tensor

    Term = str | NDArray[Any] | Tensor  # a word, or a vector
    Terms = Term | Sequence[Term]

Method = Literal["add", "mul"]
Neighbors = list[tuple[str, float]]  # (word, cosine), nearest first

# Keeps the quotient of 3CosMul finite: 0.001 in the paper, 1e-6 in gensim. The latter, so that rankings agree with gensim's.
EPSILON = 1e-6


class WordVectors:
    """`words[n]` has the vector `vectors[n]`. The vectors may be memory-mapped; they are then read on demand."""

    def __init__(
        self,
        words: Sequence[str],
        vectors: NDArray[np.float32],
        counts: NDArray[np.int64] | None = None,
        metadata: Mapping[str, str] | None = None,
        outputs: NDArray[np.float32] | None = None,
    ) -> None:
        if vectors.ndim != 2 or len(vectors) != len(words):
            raise DataError(f"{len(words):,} words but vectors of shape {vectors.shape}; expected one row per word")
        if counts is not None and counts.shape != (len(words),):
            raise DataError(f"{len(words):,} words but counts of shape {counts.shape}; expected one count per word")
        self.words = words
        self.vectors = vectors
        self.counts = counts
        self.metadata = dict(metadata or {})  # written by the trainer: config (JSON), epochs, state
        self.outputs = outputs  # context vectors or inner nodes: used only to train further

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: n for n, word in enumerate(self.words)}

    @cached_property
    def norm_V(self) -> NDArray[np.float32]:
        return search.norms(self.vectors)

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return int(self.vectors.shape[1])

    @property
    def width(self) -> int:
        """The former name of `dim`."""
        return self.dim

    @property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word; gensim's name for `index`."""
        return self.index

    @property
    def index_to_key(self) -> list[str]:
        """The words in the order of the rows; gensim's name for `words`, as a list."""
        return list(self.words)

    @property
    def vector_size(self) -> int:
        """The dimension of the vectors; gensim's name for `dim`."""
        return self.dim

    def get_vector(self, key: str | int, norm: bool = False) -> NDArray[np.float32]:
        """The vector of `key`, a word or the number of its row, as in gensim; with `norm`, divided by its norm."""
        word = key if isinstance(key, str) else self.words[_row(key, len(self))]
        return self.unit(word) if norm else self[word]

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.vectors[self.id(word)]
        return row

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, dim {self.dim})"

    def _repr_html_(self) -> str:
        """For a notebook: a small table."""
        from firth.figures.figure import Table

        first = ", ".join(list(self.words[:8]) + ["…"] * (len(self) > 8))
        rows = [("words", f"{len(self):,}"), ("dimension", f"{self.dim:,}"), ("first words", first)]
        return Table(("WordVectors", ""), rows).html()

    def id(self, word: str) -> int:
        """The row of a word; an unknown word raises an error that suggests similar spellings."""
        try:
            return self.index[word]
        except KeyError:
            raise DataError(f'"{word}" is not in the vocabulary of {len(self):,} words.{self._suggestion(word)}') from None

    def unit(self, word: str) -> NDArray[np.float32]:
        """The vector of `word` divided by its norm."""
        n = self.id(word)
        return np.asarray(self.vectors[n] / self.norm_V[n])

    def similarity(self, a: str, b: str) -> float:
        """The cosine of the vectors of the words `a` and `b`."""
        return float(self.unit(a) @ self.unit(b))

    def nearest(
        self, vector: ArrayLike, topn: int = 10, exclude: Iterable[str] = (), restrict_vocab: int | None = None
    ) -> Neighbors:
        """The words with the largest cosine to `vector`, without the words in `exclude`."""
        barred = frozenset(map(self.id, exclude))
        return self._search(self._direction(_array(vector))[None], [barred], topn, restrict_vocab)[0]

    def nearest_batch(self, vectors: ArrayLike, topn: int = 10, restrict_vocab: int | None = None) -> list[Neighbors]:
        """`nearest` for every row of the matrix `vectors`: much faster than one call per row."""
        query_Qd = self._queries(_array(vectors))
        return self._search(query_Qd, [frozenset[int]()] * len(query_Qd), topn, restrict_vocab)

    def most_similar(
        self, positive: Terms, negative: Terms = (), topn: int = 10, method: Method = "add", restrict_vocab: int | None = None
    ) -> Neighbors:
        """The words nearest to the terms `positive` and farthest from `negative`. A term is a word, or a vector (a NumPy array or
        a torch tensor). The given words are left out of the answer; a word whose vector is given is not.

        `method`: "add" (3CosAdd, Mikolov et al. 2013), the cosine with Σ positive − Σ negative, each normalised to length 1;
        "mul" (3CosMul, Levy & Goldberg 2014, eq. 4): Π s(positive) / (Π s(negative) + ε), s = (1 + cos) / 2."""
        plus, minus = _terms(positive), _terms(negative)
        if not plus and not minus:
            raise ConfigError("most_similar needs at least one positive or negative word")
        barred = frozenset(self.id(term) for term in (*plus, *minus) if isinstance(term, str))
        plus_Nd, minus_Nd = self._units(plus), self._units(minus)
        match method:
            case "add":
                query_d = plus_Nd.sum(0) - minus_Nd.sum(0)
                if not query_d.any():
                    raise ConfigError(
                        "the positive and negative terms of most_similar cancel out. Remove terms that are in both."
                    )
                return self._search(query_d[None], [barred], topn, restrict_vocab)[0]
            case "mul":
                score_V = self._cosmul(plus_Nd, minus_Nd, restrict_vocab)
                order = search.best(score_V, min(_positive(topn) + len(barred), len(score_V)))
                return [(self.words[n], float(score_V[n])) for n in order if n not in barred][:topn]
        raise ConfigError(f'method is "{method}"; expected add or mul')

    def most_similar_batch(self, words: Sequence[str], topn: int = 10, restrict_vocab: int | None = None) -> list[Neighbors]:
        """`most_similar(word)` for each of many `words`, as blocked matrix products."""
        ids = [self.id(word) for word in words]
        return self._search(self.vectors[ids], [frozenset((n,)) for n in ids], topn, restrict_vocab)

    def analogy(
        self, a: str, b: str, c: str, topn: int = 10, method: Method = "add", restrict_vocab: int | None = None
    ) -> Neighbors:
        """`a` is to `b` as `c` is to …: `analogy("spain", "madrid", "france")` is madrid − spain + france.

        `method`: "add" or "mul", as for `most_similar`."""
        return self.most_similar([b, c], [a], topn, method, restrict_vocab)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word with the smallest cosine to the mean of all `words`, each normalised to length 1. Ties go to the first."""
        if len(words) < 2:
            raise ConfigError(f"doesnt_match needs at least two words; got {len(words)}")
        unit_Nd = np.stack([self.unit(word) for word in words])
        return words[int(np.argmin(unit_Nd @ unit_Nd.mean(0)))]

    def axis(self, positive: str | Sequence[str], negative: str | Sequence[str]) -> Axis:
        """The axis from the `negative` to the `positive` words, and the place of every word on it: its cosine with

            mean of the positive unit vectors − mean of the negative unit vectors

        `.highest()` and `.lowest()` list the words nearest to its ends, `axis[word]` is the place of one word."""
        plus, minus = tuple(_several(positive)), tuple(_several(negative))
        if not plus or not minus:
            raise ConfigError("an axis needs words at both ends. Give at least one positive and one negative word")
        direction_d = direction(*(np.stack([self.unit(word) for word in words]) for words in (plus, minus)))
        return Axis(plus, minus, direction_d, self.index, self.words, self.vectors @ direction_d / self.norm_V)

    def save(self, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
        """Write the `.firth` file `path`; `metadata` is added to the existing metadata. Other formats:
        `firth.vectors.formats.save`."""
        from firth.vectors import formats

        formats.save(self, path, "firth", metadata)

    def _search(
        self, query_Qd: NDArray[np.float32], barred: Sequence[frozenset[int]], topn: int, restrict_vocab: int | None
    ) -> list[Neighbors]:
        V = _limit(restrict_vocab, len(self))
        extra = max((len(ids) for ids in barred), default=0)
        index_Qk, cosine_Qk = search.top(self.vectors[:V], self.norm_V[:V], query_Qd, _positive(topn) + extra)
        return [
            [(self.words[n], cosine) for n, cosine in zip(index_k, cosine_k, strict=True) if n not in ids][:topn]
            for index_k, cosine_k, ids in zip(index_Qk.tolist(), cosine_Qk.tolist(), barred, strict=True)
        ]

    def _cosmul(
        self, plus_Nd: NDArray[np.float32], minus_Nd: NDArray[np.float32], restrict_vocab: int | None
    ) -> NDArray[np.float32]:
        V, unit_Nd = _limit(restrict_vocab, len(self)), np.concatenate((plus_Nd, minus_Nd))
        shifted_VN = (1 + self.vectors[:V] @ unit_Nd.T / self.norm_V[:V, None]) / 2  # eq. 4 requires non-negative values
        score_V = shifted_VN[:, : len(plus_Nd)].prod(1) / (shifted_VN[:, len(plus_Nd) :].prod(1) + EPSILON)
        return np.asarray(score_V, np.float32)

    def _units(self, terms: Sequence[str | NDArray[Any]]) -> NDArray[np.float32]:
        """The words' and vectors' directions, one per row."""
        units = [self.unit(term) if isinstance(term, str) else self._direction(term) for term in terms]
        return np.stack(units) if units else np.empty((0, self.dim), np.float32)

    def _direction(self, vector_d: NDArray[Any]) -> NDArray[np.float32]:
        unit_d = self._queries(np.asarray(vector_d)[None])[0].astype(np.float64)  # 1e-30 squared is 0 in float32
        largest = abs(unit_d).max()
        if largest == 0:
            raise ConfigError("the query vector is zero, so it has no direction; expected at least one number that is not 0")
        unit_d /= largest
        return np.asarray(unit_d / np.sqrt(unit_d @ unit_d), np.float32)

    def _queries(self, query_Qd: NDArray[Any]) -> NDArray[Any]:
        if query_Qd.dtype.kind not in "fiu":
            raise ConfigError(f"the query is an array of {query_Qd.dtype}; expected real numbers")
        if query_Qd.ndim != 2 or query_Qd.shape[1] != self.dim:
            raise ConfigError(f"the query has shape {query_Qd.shape[1:]}; expected a vector of dimension {self.dim}")
        if not np.isfinite(query_Qd).all():
            raise ConfigError("the query contains nan or infinity; expected finite numbers")
        return query_Qd

    def _suggestion(self, word: str) -> str:
        near = [f'"{other}"' for other in near_spellings(word, self.words, self.index)]
        return f" Did you mean {' or '.join((', '.join(near[:-1]), near[-1])) if near[1:] else near[0]}?" if near else ""


def _terms(given: Terms) -> list[str | NDArray[Any]]:
    """Words and vectors as a list. A matrix is several vectors, an array of strings several words."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, (list, tuple)):
        array = _array(given)
        return [array] if array.ndim == 1 and array.dtype.kind != "U" else list(map(_term, array))
    return list(map(_term, given))


def _term(given: Any) -> str | NDArray[Any]:
    if isinstance(given, str):
        return str(given)
    if isinstance(given, (int, float)):
        raise ConfigError(f"most_similar expects words and vectors, but got the number {given}. Pass a vector as a NumPy array.")
    return _array(given)


def _array(given: Any) -> NDArray[Any]:
    """A NumPy array; also of a torch tensor on any device, in any precision, with or without a gradient."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = given.float() if given.is_floating_point() else given  # NumPy has no bfloat16
    return np.asarray(given)


def _row(number: int, count: int) -> int:
    if not 0 <= number < count:
        raise DataError(f"there is no row {number}; the vectors have rows {index_range(count)}")
    return number


def _several(words: str | Sequence[str]) -> Sequence[str]:
    return [words] if isinstance(words, str) else words


def _positive(topn: int) -> int:
    if topn < 1:
        raise ConfigError(f"topn is {topn}; expected at least 1")
    return topn


def _limit(restrict_vocab: int | None, V: int) -> int:
    if restrict_vocab is not None and restrict_vocab < 1:
        raise ConfigError(f"restrict_vocab is {restrict_vocab}; expected at least 1. Leave it out to search all words")
    return V if restrict_vocab is None else min(restrict_vocab, V)
