"""Filling a blank: "I was in a __. I was eating popcorn" (S9).

A left-to-right model has no blank, but it can judge: log p(left + filler + right) ranks the fillers, and beside it
p(filler | left) shows what the left context alone would have said. The normalised share is softmax over the candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
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
_LONGEST = 24  # tokens in a proposed filler


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
    stem = left.rstrip(" ")
    gap = left[len(stem) :]
    fillers = [c.strip() for c in candidates] if candidates is not None else _proposed(model, stem, gap, proposals)
    fillers = [filler for filler in dict.fromkeys(fillers) if filler]
    if not fillers:
        raise DataError("no candidates to choose from; give some with --candidates a,b,c")
    whole = [_log_p(model, stem + gap + filler + right) for filler in fillers]
    to_blank = [_log_p(model, stem + gap + filler) - _log_p(model, stem) for filler in fillers]
    shares, left_shares = _softmax(whole), _softmax(to_blank)
    found = [
        Completion(filler, whole[n], math.exp(min(0.0, to_blank[n])), shares[n], left_shares[n])
        for n, filler in enumerate(fillers)
    ]
    return sorted(found, key=lambda completion: completion.log_probability, reverse=True)


def _log_p(model: Model, text: str) -> float:
    ids = np.concatenate((model.opening(), model.ids(text)))
    return math.fsum(read_log_probabilities(model.network, ids))


def _proposed(model: Model, stem: str, gap: str, proposals: int) -> list[str]:
    """Whole words, most probable first: a hypothesis is finished when something other than a letter follows its word."""
    prompt = np.concatenate((model.opening(), model.ids(stem + gap if model.tokenizer.kind == "char" else stem)))
    if not len(prompt):
        raise DataError("the blank has nothing to its left to propose from; give --candidates a,b,c")
    word = re.compile(r"\s*([\w'-]+)" if model.tokenizer.kind == "word" else r"\s*([\w'-]+)[^\w'-]", re.DOTALL)

    def text_of(tokens: tuple[int, ...]) -> str:
        return model.tokenizer.decode(np.asarray(tokens))

    context = model.network.context
    prompt_T = torch.from_numpy(prompt if context is None else prompt[-(context - _LONGEST) :]).to(model.device)
    found = beam(
        model.network,
        prompt_T,
        size=proposals,
        steps=_LONGEST,
        finished=lambda tokens: word.match(text_of(tokens)) is not None,
    )
    return [match.group(1) for hypothesis in found if (match := word.match(text_of(hypothesis.tokens)))]


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
