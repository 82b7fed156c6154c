"""Texts as lists of tokens: byte-pair encoding, beam search and BLEU.

Letters: V vocabulary.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.oracles.sequences import beam_search, bleu, bpe_merge, ngrams

# Byte-pair encoding


def _merged(matches: Callable[[str, str], bool], tokens: Sequence[str], most: int | None = None) -> list[str]:
    """One pass from left to right that joins the pairs that match, at most `most` of them."""
    merged, place, count = [], 0, 0
    while place < len(tokens):
        if place + 1 < len(tokens) and matches(tokens[place], tokens[place + 1]) and (most is None or count < most):
            merged.append(tokens[place] + tokens[place + 1])
            place, count = place + 2, count + 1
        else:
            merged.append(tokens[place])
            place += 1
    return merged


def _from_the_right(tokens: list[str], left: str, right: str) -> list[str]:
    backwards = _merged(lambda a, b: (a, b) == (right[::-1], left[::-1]), [token[::-1] for token in tokens[::-1]])
    return [token[::-1] for token in backwards[::-1]]


def _overlapping(tokens: list[str], left: str, right: str) -> list[str]:
    """A token may be part of two pairs."""
    pairs = [(one, other) == (left, right) for one, other in itertools.pairwise(tokens)]
    kept = [
        [left + right] if here else [] if n and pairs[n - 1] else [tokens[n]]
        for n, here in enumerate([*pairs, False][: len(tokens)])
    ]
    return [token for part in kept for token in part]


_ANY = ("a", "b", "ab")

BPE_MERGE = Exercise(
    "bpe_merge",
    "one merge of byte-pair encoding",
    "from left to right, every neighbouring pair (left, right) becomes one token; a token is part of one pair at most",
    {"tokens": "a text as tokens", "left": "first token of the pair", "right": "second token of the pair"},
    {"merged": "the text after the merge"},
    bpe_merge,
    (
        (["a", "b", "a", "b"], "a", "b"),
        (["b", "a", "c", "a", "b"], "a", "b"),
        (["a", "a", "a"], "a", "a"),
    ),
    lambda generator: (
        [str(one) for one in generator.choice(_ANY, length(generator, 9, 10))],
        *map(str, generator.choice(_ANY, 2)),
    ),
    (
        WrongProgram(
            "a merge of the first pair only", lambda tokens, left, right: _merged(lambda a, b: (a, b) == (left, right), tokens, 1)
        ),
        WrongProgram("a merge from right to left", _from_the_right),
        WrongProgram(
            "a merge that ignores the order of the pair, so that (right, left) is merged, too",
            lambda tokens, left, right: _merged(lambda a, b: {a, b} == {left, right}, tokens),
        ),
        WrongProgram("a merge in which a token can be part of two pairs", _overlapping),
        WrongProgram(
            "a merge of (right, left) instead of (left, right)",
            lambda tokens, left, right: _merged(lambda a, b: (a, b) == (right, left), tokens),
        ),
    ),
)

# Beam search

_TIE = 1e-9  # between log probabilities


def _draw_search(generator: np.random.Generator) -> Case:
    V = length(generator, 4, 6)
    power_VV = generator.exponential(1.0, (V, V))
    power_VV[0, 1] = 20.0  # a search that goes on after the end finds this very probable
    log_p_VV = np.log(power_VV / power_VV.sum(1, keepdims=True))
    return log_p_VV, 1, 0, 3, length(generator, 3, 6), float(generator.choice([0.5, 1.0, 1.5]))


def _clear_search(log_p_VV: Array, start: int, end: int, beam: int, longest: int, alpha: float) -> bool:
    """No two texts have the same probability where that decides which of them is kept, or is the best."""
    live, finished = [(0.0, start, 0)], []
    for _ in range(longest):
        every = sorted(
            ((p + float(log_p_VV[last, v]), v, n + 1) for p, last, n in live for v in range(len(log_p_VV))), reverse=True
        )
        if len(every) > beam and every[beam - 1][0] - every[beam][0] < _TIE:
            return False
        live = [found for found in every[:beam] if found[1] != end]
        finished += [found for found in every[:beam] if found[1] == end]
    best, second = sorted((p / n**alpha for p, _, n in [*finished, *live]), reverse=True)[:2]
    return bool(best - second > _TIE)


def _searched(
    penalty: Callable[[int, float], float] = lambda n, alpha: float(n**alpha),
    one: bool = False,
    finishes: bool = True,
    last: bool = False,
) -> Callable[..., list[int]]:
    """Beam search with parts of it replaced."""

    def program(log_p_VV: Array, start: int, end: int, beam: int, longest: int, alpha: float) -> list[int]:
        live: list[tuple[float, list[int]]] = [(0.0, [start])]
        finished: list[tuple[float, list[int]]] = []
        for _ in range(longest):
            longer = [
                (score + float(log_p_VV[tokens[-1], v]), [*tokens, v]) for score, tokens in live for v in range(len(log_p_VV))
            ]
            kept = sorted(longer, key=lambda found: -found[0])[: 1 if one else beam]
            if last and kept and kept[0][1][-1] == end:
                return kept[0][1][1:]
            finished += [found for found in kept if found[1][-1] == end]
            live = [found for found in kept if found[1][-1] != end] if finishes else kept
        found = [*finished, *live]
        return max(found, key=lambda one: one[0] / penalty(len(one[1]) - 1, alpha))[1][1:]

    return program


_BIGRAMS = np.log(
    np.array(
        [
            [0.25, 0.25, 0.25, 0.25],
            [0.375, 0.125, 0.3125, 0.1875],
            [0.0625, 0.125, 0.0625, 0.75],
            [0.875, 0.03125, 0.0625, 0.03125],
        ]
    )
)

BEAM_SEARCH = Exercise(
    "beam_search",
    "beam search over a bigram model, with a length penalty",
    "log P(y) = Σ_t log_p[y_{t−1}, y_t]        y_0 = start        the best hypothesis has the highest log P(y) / n^α\n"
    "each of longest steps extends every live hypothesis by every token and keeps the beam most probable extensions\n"
    "an extension by end is finished and leaves the beam; the others are live; after the last step, they count as finished\n"
    "n is the count of tokens y_1 … y_n, with end if it is there",
    {
        "log_p_VV": "log probability of a token (column) after another (row)",
        "start": "the token before the first one",
        "end": "the token that ends a text",
        "beam": "hypotheses to keep in each step",
        "longest": "the largest count of tokens",
        "alpha": "α, the exponent of the length penalty",
    },
    {"tokens": "a list of integers, without `start`; it includes `end` if the hypothesis has it"},
    beam_search,
    ((_BIGRAMS, 1, 0, 2, 3, 1.0),),
    _draw_search,
    (
        WrongProgram("beam search with the length penalty inverted, log P · n^α", _searched(lambda n, alpha: float(n**-alpha))),
        WrongProgram("beam search without the length penalty", _searched(lambda n, alpha: 1.0)),
        WrongProgram("greedy search: a beam of 1", _searched(one=True)),
        WrongProgram("beam search that returns the first hypothesis that ends at the top of the beam", _searched(last=True)),
        WrongProgram(
            "beam search that goes on extending hypotheses after their `end`",
            _searched(finishes=False),
        ),
    ),
    draws=20,
    clear=_clear_search,
)

# BLEU


def _bleu(
    clipped: bool = True,
    brevity: Callable[[int, int], float] = lambda c, r: min(1.0, math.exp(1 - r / c)),
    mean: Callable[[list[float]], float] = lambda precisions: math.prod(precisions) ** (1 / len(precisions)),
    longest: int = 4,
) -> Callable[[list[str], list[str]], float]:
    """BLEU with parts of it replaced."""

    def program(candidate: list[str], reference: list[str]) -> float:
        precisions = []
        for n in range(1, longest + 1):
            found, known = ngrams(candidate, n), ngrams(reference, n)
            hits = sum(min(count, known[gram]) if clipped else count * (gram in known) for gram, count in found.items())
            precisions.append(hits / max(1, found.total()))
        return mean(precisions) * brevity(len(candidate), len(reference))

    return program


def _draw_texts(generator: np.random.Generator) -> Case:
    reference = [str(one) for one in generator.choice(["the", "cat", "sat", "on", "mat"], length(generator, 7, 12))]
    candidate = reference[: int(generator.integers(5, len(reference)))]
    return candidate + candidate[: int(generator.integers(0, 4))], reference


_LONG = ["the", "cat", "sat", "on", "the", "mat"]

BLEU = Exercise(
    "bleu",
    "BLEU of one text against one reference, without smoothing",
    "BLEU = min(1, exp(1 − r/c)) · (p_1 p_2 p_3 p_4)^(1/4), c and r the lengths of candidate and reference\n"
    "p_n = Σ min(count in the candidate, count in the reference) / Σ count in the candidate, over the n-grams of the candidate\n"
    "p_n is 0 if the candidate has no n-gram",
    {"candidate": "tokens of the translation, at least one", "reference": "tokens of the reference"},
    {"bleu": "between 0 and 1"},
    bleu,
    (
        (["the", "cat", "sat", "on"], _LONG),
        (["the", "cat", "sat", "on", "the", "cat", "sat", "on"], _LONG),
        (["the", "cat"], _LONG),
    ),
    _draw_texts,
    (
        WrongProgram("BLEU without the brevity penalty", _bleu(brevity=lambda c, r: 1.0)),
        WrongProgram("BLEU without clipping: an n-gram counts as often as the candidate repeats it", _bleu(clipped=False)),
        WrongProgram(
            "BLEU with the brevity penalty inverted, exp(1 − c/r)", _bleu(brevity=lambda c, r: min(1.0, math.exp(1 - c / r)))
        ),
        WrongProgram(
            "BLEU with the arithmetic mean of the precisions", _bleu(mean=lambda precisions: sum(precisions) / len(precisions))
        ),
        WrongProgram("BLEU of single words, without longer n-grams", _bleu(longest=1)),
        WrongProgram(
            "BLEU whose penalty also rewards length: exp(1 − r/c) without min(1, ·)",
            _bleu(brevity=lambda c, r: math.exp(1 - r / c)),
        ),
    ),
)

SEQUENCES = (BPE_MERGE, BEAM_SEARCH, BLEU)
