"""Filling a blank: "I was in a __. I was eating popcorn" (S9).

A left-to-right model has no blank, but it can judge: log p(left + filler + right) ranks the fillers, and beside it
p(filler | left) shows what the left context alone would have said. The normalised share is softmax over the candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from firth.api.reading import read_log_probabilities
from firth.decoding.beam import beam
from firth.errors import DataError

if TYPE_CHECKING:
    from firth.api.model import Model

BLANK = "__"
_LONGEST = 24  # tokens in a proposed filler, and at most half of what the model can hold


@dataclass(frozen=True)
class Completion:
    filler: str
    log_probability: float  # log p(left + filler + right)
    probability_given_left: float  # p(filler | left)
    share: float  # of p(left + filler + right) among the candidates
    share_given_left: float  # of p(filler | left) among the candidates


def complete(model: Model, text: str, candidates: Sequence[str] | None, proposals: int) -> list[Completion]:
    """Best first. Without candidates, the words that a beam finds most probable after the left context."""
    if text.count(BLANK) != 1:
        raise DataError(f"the text has {text.count(BLANK)} blanks; expected exactly one {BLANK}")
    left, right = text.split(BLANK)
    # A space before the blank belongs to the filler: " cinema" is one piece to a subword tokenizer, "a " is not.
    stem = left if model.tokenizer.kind == "char" else left.rstrip(" ")
    # To a tokenizer that splits at white space, "cinema." is one word: what the right context adds to it goes with the filler.
    tail = re.split(r"\s", right, maxsplit=1)[0] if model.tokenizer.kind == "word" else ""
    fillers = [c.strip() for c in candidates] if candidates is not None else _proposed(model, stem, tail, proposals)
    fillers = [filler for filler in dict.fromkeys(fillers) if filler]
    if not fillers:
        raise DataError("no candidates to choose from; give some with --candidates a,b,c")
    whole = [_log_p(model, left + filler + right) for filler in fillers]
    before = _log_p(model, stem)
    to_blank = [_log_p(model, left + filler + tail) - before for filler in fillers]
    shares, left_shares = _softmax(whole), _softmax(to_blank)
    found = [
        Completion(filler, whole[n], math.exp(min(0.0, to_blank[n])), shares[n], left_shares[n])
        for n, filler in enumerate(fillers)
    ]
    return sorted(found, key=lambda completion: completion.log_probability, reverse=True)


def _log_p(model: Model, text: str) -> float:
    ids = np.concatenate((model.opening(), model.ids(text)))
    return math.fsum(read_log_probabilities(model.network, ids))


def _proposed(model: Model, stem: str, tail: str, proposals: int) -> list[str]:
    """Whole words, most probable first: a hypothesis is finished when something other than a letter follows its word."""
    prompt = np.concatenate((model.opening(), model.ids(stem)))
    if not len(prompt):
        raise DataError("the blank has nothing to its left to propose from; give --candidates a,b,c")
    context = model.network.context
    steps = 1 if model.tokenizer.kind == "word" else _LONGEST if context is None else min(_LONGEST, max(1, context // 2))
    held = prompt if context is None else prompt[-(context + 1 - steps) :]  # the last token of a filler is never read
    filler_of = _words_before(model, tail) if model.tokenizer.kind == "word" else _first_word(model)
    found = beam(
        model.network,
        torch.from_numpy(held).to(model.device),
        size=model.tokenizer.vocab if model.tokenizer.kind == "word" else proposals,
        steps=steps,
        finished=lambda tokens: filler_of(tokens) is not None,
    )
    return [filler for hypothesis in found if (filler := filler_of(hypothesis.tokens))][:proposals]


def _first_word(model: Model) -> Callable[[tuple[int, ...]], str | None]:
    """The word that the tokens begin with, once something follows it."""

    def filler_of(tokens: tuple[int, ...]) -> str | None:
        # U+FFFD: the beginning of a character that the next tokens complete, perhaps a letter
        match = re.match(r"\s*([\w'-]+)[^\w'\ufffd-]", model.tokenizer.decode(np.asarray(tokens)))
        return match and match.group(1)

    return filler_of


def _words_before(model: Model, tail: str) -> Callable[[tuple[int, ...]], str | None]:
    """The one token, less its tail."""

    def filler_of(tokens: tuple[int, ...]) -> str | None:
        match = re.fullmatch(rf"([\w'-]+){re.escape(tail)}", model.tokenizer.token(tokens[0]))
        return match and match.group(1)

    return filler_of


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
