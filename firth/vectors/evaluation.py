"""Evaluate word vectors: correlation with human similarity judgements, analogies, and composition.

    Spearman's ρ = the correlation of ranks; equal values share the mean of their ranks
    3CosAdd      = argmax over x ∉ {a, b, c} of cos(x, b) + cos(x, c) − cos(x, a)               Mikolov et al. 2013
    3CosMul      = argmax over x ∉ {a, b, c} of s(x, b) s(x, c) / (s(x, a) + ε), s = (1 + cos)/2     Levy & Goldberg 2014, eq. 4

Both are sums over a table of cosines (or their logarithms) for the few hundred distinct words in the questions, so the cost of
a question does not depend on the dimension.

Letters: V words, d dimension, U distinct words in the questions, Q questions of a block, B words of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.files import is_file
from firth.progress import Progress, silent
from firth.text.readers.file_decoding import lines
from firth.vectors import search
from firth.vectors.wordvectors import EPSILON, Method, Neighbors, WordVectors

RESTRICT = 300_000  # answers are searched among this many of the most frequent words, as in gensim
_WORDS, _QUESTIONS = 1024, 256  # block sizes: the scores fit the processor's cache

# Mikolov et al. 2013 ("Distributed representations …"), table 5, with one of their answers that is a single word.
COMPOSITIONS = (("czech", "currency", "koruna"), ("vietnam", "capital", "hanoi"), ("german", "airline", "lufthansa"),
                ("russian", "river", "volga"))  # fmt: skip

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ScoredPair:
    a: str
    b: str
    score: float


@dataclass(frozen=True)
class Similarity:
    """Correlation with human judgements over the `covered` of `pairs`: those whose words are both in the vocabulary."""

    name: str
    spearman: float | None  # None: fewer than two pairs, or all with the same score
    covered: int
    pairs: int

    @property
    def coverage(self) -> float:
        return self.covered / self.pairs


@dataclass(frozen=True)
class AnalogyQuestion:
    """a is to b as c is to d."""

    section: str
    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class AnalogySection:
    name: str
    correct: int
    covered: int  # questions whose four words are all in the vocabulary; the others are skipped
    questions: int

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.covered if self.covered else None


@dataclass(frozen=True)
class Analogies:
    method: Method
    sections: tuple[AnalogySection, ...]

    @property
    def total(self) -> AnalogySection:
        return _sum("total", self.sections)

    @property
    def semantic(self) -> AnalogySection:
        return _sum("semantic", [section for section in self.sections if not _syntactic(section.name)])

    @property
    def syntactic(self) -> AnalogySection:
        return _sum("syntactic", [section for section in self.sections if _syntactic(section.name)])


@dataclass(frozen=True)
class Composition:
    """The nearest neighbours of the sum of two vectors, and the rank of the expected word among all words, from 1."""

    words: tuple[str, str]
    expected: str
    rank: int | None  # None: one of the three words is not in the vocabulary
    neighbors: Neighbors


def read_pairs(path: str | Path) -> list[ScoredPair]:
    """Read a similarity file: two words and a score per line, separated by tabs, commas, semicolons or spaces; # is a comment.

    The score is the first column after the words that holds a number in the first row, so that SimLex-999 and WordSim-353 can be
    read as published, with their headers and extra columns."""
    pairs: list[ScoredPair] = []
    column: int | None = None
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        fields = _fields(line)
        if column is None:
            column = next((n for n, field in enumerate(fields) if n > 1 and _number(field) is not None), None)
            if column is None and number == 1 and len(fields) >= 3:
                continue  # the header
        score = _number(fields[column]) if column is not None and column < len(fields) else None
        if score is None:
            raise DataError(f'{path}, line {number:,}: "{line[:60]}"; expected two words and a score')
        pairs.append(ScoredPair(fields[0], fields[1], score))
    if not pairs:
        raise DataError(f"{path} contains no word pairs; expected two words and a score per line")
    return pairs


def read_questions(path: str | Path) -> list[AnalogyQuestion]:
    """Read an analogy file in word2vec's format: `: section` lines, each followed by lines of four words."""
    questions: list[AnalogyQuestion] = []
    section = None
    for number, line in _lines(path):
        fields = line.split()
        if fields[0].startswith(":"):
            section = line[1:].strip()
        elif len(fields) != 4:
            raise DataError(f'{path}, line {number:,}: "{line[:60]}"; expected four words, or a section such as ": family"')
        elif section is None:
            raise DataError(f'{path}, line {number:,}: a question before the first section; expected a line such as ": family"')
        else:
            questions.append(AnalogyQuestion(section, *fields))
    if not questions:
        raise DataError(f'{path} contains no questions; expected sections such as ": family" and lines of four words')
    return questions


def similarity(
    vectors: WordVectors, pairs: Sequence[ScoredPair], name: str, fold_case: bool = True, restrict_vocab: int | None = None
) -> Similarity:
    """Spearman's ρ between cosines and scores, over the pairs whose words are both in the vocabulary."""
    known = _Folded(vectors, fold_case, restrict_vocab)
    asked = [(known.id(pair.a), known.id(pair.b), pair.score) for pair in pairs]
    a, b, score = (np.array(column) for column in zip(*asked, strict=True))
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    cosine = np.vecdot(known.unit(a).astype(np.float64), known.unit(b).astype(np.float64))
    return Similarity(name, spearman(cosine, score[both]), int(both.sum()), len(pairs))


def spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float | None:
    """Pearson's correlation of the ranks; None if all values on one side are equal."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def analogies(
    vectors: WordVectors,
    questions: Sequence[AnalogyQuestion],
    method: Method = "add",
    restrict_vocab: int | None = RESTRICT,
    fold_case: bool = True,
    progress: Progress = silent,
) -> Analogies:
    """Answer every question whose four words are in the vocabulary. Correct if the best word other than a, b and c is d."""
    known = _Folded(vectors, fold_case, restrict_vocab)
    asked_Q4: NDArray[np.int64] = np.array([[known.id(word) for word in (q.a, q.b, q.c, q.d)] for q in questions])
    covered_Q: NDArray[np.bool_] = np.asarray((asked_Q4 >= 0).all(1))
    right_Q = np.zeros(len(questions), bool)
    answer = _answers(known, asked_Q4[covered_Q, :3], method, progress)
    right_Q[covered_Q] = known.same(answer, asked_Q4[covered_Q, 3])
    names = [question.section for question in questions]
    sections = []
    for name in dict.fromkeys(names):
        here = np.array([name == other for other in names])
        sections.append(AnalogySection(name, int(right_Q[here].sum()), int(covered_Q[here].sum()), int(here.sum())))
    return Analogies(method, tuple(sections))


def compositions(
    vectors: WordVectors, examples: Iterable[tuple[str, str, str]] = COMPOSITIONS, topn: int = 5
) -> list[Composition]:
    """czech + currency ≈ koruna: the nearest neighbours of the sum of two vectors, and the rank of the expected word."""
    compositions = []
    for a, b, expected in examples:
        near: Neighbors = []
        rank = None
        if a in vectors and b in vectors:
            near = vectors.most_similar([a, b], topn=topn)
            rank = _rank(vectors, (a, b), expected) if expected in vectors else None
        compositions.append(Composition((a, b), expected, rank, near))
    return compositions


class _Folded:
    """The first `restrict_vocab` words, optionally case-folded; if several words share a form, it means the first of them."""

    def __init__(self, vectors: WordVectors, fold_case: bool, restrict_vocab: int | None) -> None:
        self.vectors = vectors
        self.fold = str.casefold if fold_case else str
        words = vectors.words[:restrict_vocab]
        self.size = len(words)
        folded = [self.fold(word) for word in words]
        self.first: dict[str, int] = {}
        for n, word in enumerate(folded):
            self.first.setdefault(word, n)
        self.form_V = np.array([self.first[word] for word in folded])  # one number for all words of the same form

    def id(self, word: str) -> int:
        return self.first.get(self.fold(word), -1)

    def unit(self, ids: NDArray[np.int64]) -> Floats:
        return search.units(self.vectors.vectors[ids], self.vectors.norm_V[ids])

    def same(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(self.form_V[a] == self.form_V[b])


def _answers(known: _Folded, asked_Q3: NDArray[np.int64], method: Method, progress: Progress) -> NDArray[np.int64]:
    """The best word for each (a, b, c), excluding all words with the same form as a, b or c."""
    Q = len(asked_Q3)
    best_Q, answer_Q = np.full(Q, -np.inf, np.float32), np.zeros(Q, np.int64)
    if Q == 0:
        return answer_Q
    word_U, place = np.unique(asked_Q3, return_inverse=True)
    place_Q3 = place.reshape(-1, 3)
    unit_Ud, asking = known.unit(word_U), _questions_by_form(known.form_V[asked_Q3])
    for low in range(0, known.size, _WORDS):
        ids_B = np.arange(low, min(low + _WORDS, known.size))
        cosine_UB = unit_Ud @ known.unit(ids_B).T
        plus_UB, minus_UB = _tables(cosine_UB, method)
        row_N, column_N = _barred(known.form_V[ids_B], asking)
        for first in range(0, Q, _QUESTIONS):
            some = slice(first, first + _QUESTIONS)
            a, b, c = place_Q3[some].T
            score_QB = plus_UB[b]
            score_QB += plus_UB[c]
            score_QB -= minus_UB[a]
            here = slice(*np.searchsorted(row_N, (first, first + _QUESTIONS)))
            score_QB[row_N[here] - first, column_N[here]] = -np.inf
            column_Q = score_QB.argmax(1)
            score_Q = score_QB[np.arange(len(column_Q)), column_Q]
            better_Q = score_Q > best_Q[some]
            best_Q[some][better_Q], answer_Q[some][better_Q] = score_Q[better_Q], low + column_Q[better_Q]
        progress(f"analogies, {method}", low + len(ids_B), known.size)
    return answer_Q


def _tables(cosine_UB: Floats, method: Method) -> tuple[Floats, Floats]:
    """The terms that a word adds as b or c, and subtracts as a. Logarithms turn the products of 3CosMul into sums."""
    if method == "add":
        return cosine_UB, cosine_UB
    shifted_UB = np.maximum((1 + cosine_UB) / 2, np.float32(1e-30))
    return np.log(shifted_UB), np.log(shifted_UB + np.float32(EPSILON))


def _questions_by_form(form_Q3: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """For each form in the questions, the indices of the questions that have it as a, b or c."""
    return {int(form): np.flatnonzero((form_Q3 == form).any(1)) for form in np.unique(form_Q3)}


def _barred(form_B: NDArray[np.int64], asking: dict[int, NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(question, column) of every word in this block that is part of the question, sorted by question."""
    columns = [column for column, form in enumerate(form_B.tolist()) if form in asking]
    rows = [asking[int(form_B[column])] for column in columns]
    row_N = np.concatenate([np.empty(0, np.int64), *rows])
    column_N = np.repeat(np.array(columns, np.int64), [len(row) for row in rows])
    order = np.argsort(row_N, kind="stable")
    return row_N[order], column_N[order]


def _rank(vectors: WordVectors, given: tuple[str, str], expected: str) -> int:
    query_d = vectors.unit(given[0]) + vectors.unit(given[1])
    score_V = vectors.vectors @ query_d / vectors.norm_V
    score_V[[vectors.id(word) for word in given]] = -np.inf
    return int((score_V > score_V[vectors.id(expected)]).sum()) + 1


def _syntactic(section: str) -> bool:
    """word2vec's naming convention: gram1-adjective-to-adverb …"""
    return section.startswith("gram")


def _sum(name: str, sections: Sequence[AnalogySection]) -> AnalogySection:
    correct, covered, questions = (sum(getattr(s, what) for s in sections) for what in ("correct", "covered", "questions"))
    return AnalogySection(name, correct, covered, questions)


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The non-blank lines with their line numbers."""
    place = Path(path).expanduser()
    if not is_file(place):
        raise DataError(f"{path} does not exist. `firth data get wordsim` and `firth data get analogy` fetch standard files")
    for number, line in enumerate(lines(place, lambda done: None), 1):
        if line.strip():
            yield number, line.strip()


def _fields(line: str) -> list[str]:
    for separator in ("\t", ",", ";"):
        if separator in line:
            return [field.strip() for field in line.split(separator)]
    return line.split()


def _number(field: str) -> float | None:
    try:
        value = float(field)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
