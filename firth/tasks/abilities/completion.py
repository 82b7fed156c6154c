"""Filling a blank with a language model: "I was in a __. I was eating popcorn".

log p(left + filler + right) ranks the fillers; beside it, p(filler | left) shows what the left context alone predicts.
The normalised share is a softmax over the candidates.

With nothing to the left of the blank, p(filler) is the probability at the start of a text: after <eos>, the start token of an
imported model, or a newline. Without any of these in the vocabulary, the first token of a text has the probability 1/V, the same
for all V tokens, so that the right context decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import beam
from firth.errors import DataError, option
from firth.inspection.predictions import read_log_probabilities
from firth.models import LanguageModel
from firth.tasks.run import Run

LanguageRun = Run[LanguageModel]
BLANK = "__"
_CANDIDATES = option('candidates=["a", "b"]', "--candidates a,b,c")
_ROWS, _NARROW = 256, 2  # first tokens at once, and the beam of each
_LONGEST = 24  # tokens in a proposed filler, and at most half of what the model can hold


@dataclass(frozen=True)
class Completion:
    filler: str
    log_probability: float  # log p(left + filler + right)
    probability_given_left: float  # p(filler | left)
    share: float  # of p(left + filler + right) among the candidates
    share_given_left: float  # of p(filler | left) among the candidates


def complete(model: LanguageRun, text: str, candidates: Sequence[str] | None, proposals: int) -> list[Completion]:
    """Best first. Without candidates, a beam proposes the most probable words after the left context."""
    if text.count(BLANK) != 1:
        raise DataError(f"the text has {text.count(BLANK)} blanks; expected exactly one {BLANK}")
    left, right = text.split(BLANK)
    # A space before the blank belongs to the filler: " cinema" is one piece to a subword tokenizer, "a " is not.
    stem = model.tokenizer.before_gap(left)
    # A word tokenizer reads "cinema." as one word, so punctuation right after the blank belongs to the filler's token.
    tail = re.split(r"\s", right, maxsplit=1)[0] if model.tokenizer.whole_words else ""
    fillers = [c.strip() for c in candidates] if candidates is not None else _proposed(model, stem, tail, proposals)
    fillers = [filler for filler in dict.fromkeys(fillers) if filler]
    if not fillers:
        raise DataError(f"the list of candidates is empty. Give some: {_CANDIDATES}.")
    if candidates is not None and model.tokenizer.unknown is not None:
        _refuse_unknown(model, [filler + tail for filler in fillers])
    first = 0.0 if stem or len(model.start_ids()) else -math.log(model.tokenizer.vocab)
    whole = [first + _log_p(model, left + filler + right) for filler in fillers]
    before = _log_p(model, stem)
    to_blank = [first + _log_p(model, left + filler + tail) - before for filler in fillers]
    shares, left_shares = _softmax(whole), _softmax(to_blank)
    completions = [
        Completion(filler, whole[n], math.exp(min(0.0, to_blank[n])), shares[n], left_shares[n])
        for n, filler in enumerate(fillers)
    ]
    return sorted(completions, key=lambda completion: completion.log_probability, reverse=True)


def _refuse_unknown(model: LanguageRun, fillers: Sequence[str]) -> None:
    unknown = sorted({word for filler in fillers for word in model.tokenizer.unseen(filler)})
    if unknown:
        named = ", ".join(f'"{word}"' for word in unknown)
        raise DataError(f"not in the vocabulary, so the model sees them all as <unk>: {named}. Choose other candidates.")


def _log_p(model: LanguageRun, text: str) -> float:
    ids = np.concatenate((model.start_ids(), model.ids(text)))
    return math.fsum(read_log_probabilities(model.network, ids))


def _proposed(model: LanguageRun, stem: str, tail: str, proposals: int) -> list[str]:
    """Whole words, most probable first."""
    context = model.network.context
    prompt = np.concatenate((model.start_ids(), model.ids(stem)))
    words: _Words = _OneWord(model, tail) if model.tokenizer.whole_words else _SpelledWord(model)
    if not bool(words.ends_V.any()):  # such as h, e, l, o: no token could end a word
        words = _AnyToken(model)
    steps = _LONGEST if context is None else min(_LONGEST, context // 2 + 1)
    if not len(prompt):
        return _of_first_tokens(words, steps, proposals)
    held = prompt if context is None else prompt[-(context + 1 - steps) :]  # the last token of a filler is never read
    prompt_1T = torch.from_numpy(held).unsqueeze(0).to(model.device)
    (hypotheses,) = beam(words, words.start(1), prompt_1T, _by_log_p(2 * proposals), limits=[steps], end=words.end)
    spelled = (words.text(hypothesis.tokens[:-1]) for hypothesis in hypotheses if hypothesis.log_probability > -math.inf)
    return list(dict.fromkeys(word for word in spelled if word))[:proposals]


def _of_first_tokens(words: _Words, steps: int, proposals: int) -> list[str]:
    """The most probable words at the start of a text, if every first token is equally probable."""
    log_p_of: dict[str, float] = {}
    for first_B in torch.split(words.begins_V.nonzero()[:, 0], _ROWS):
        start = _State(words.model.network.start(len(first_B)), started=True)
        limits = [steps - 1] * len(first_B)
        rows = beam(words, start, first_B.unsqueeze(1), _by_log_p(_NARROW), limits=limits, end=words.end)
        for first, hypotheses in zip(first_B.tolist(), rows, strict=True):
            for one in hypotheses:
                if one.log_probability > -math.inf and (word := words.text((first, *one.tokens[:-1]))):
                    log_p_of[word] = max(one.log_probability, log_p_of.get(word, -math.inf))
    return sorted(log_p_of, key=lambda word: -log_p_of[word])[:proposals]


def _by_log_p(beam: int) -> DecodingConfig:
    return DecodingConfig(beam=beam, penalty=0.0)


@dataclass(frozen=True)
class _State:
    inner: Any
    started: bool  # whether the first token of the word has been written

    def select(self, rows: Tensor) -> _State:
        return _State(self.inner.select(rows), self.started)


class _Words:
    """The model restricted to one word: tokens that begin or continue it, and `end`, which has the summed probability of all
    tokens that would end it, so that hypotheses which differ only in what follows the word are one."""

    def __init__(self, model: LanguageRun, begins: Sequence[int], continues: Sequence[int], ends: Sequence[int]) -> None:
        self.model, self.end = model, model.tokenizer.vocab
        self.begins_V, self.continues_V, self.ends_V = (self._mask(ids) for ids in (begins, continues, ends))

    def _mask(self, ids: Sequence[int]) -> Tensor:
        mask_V = torch.zeros(self.end, dtype=torch.bool)
        mask_V[list(ids)] = True
        return mask_V.to(self.model.device)

    def start(self, batch: int) -> _State:
        return _State(self.model.network.start(batch), started=False)

    def step(self, token_BT: Tensor, state: _State) -> tuple[Tensor, _State]:
        logits_BTV, inner = self.model.network.step(token_BT, state.inner)
        log_p_BV = torch.log_softmax(logits_BTV[:, -1].float(), -1)
        word_BV = log_p_BV.masked_fill(~(self.continues_V if state.started else self.begins_V), -math.inf)
        end_BV = log_p_BV.masked_fill(~self.ends_V if state.started else torch.ones_like(self.ends_V), -math.inf)
        return torch.cat((word_BV, end_BV.logsumexp(-1, keepdim=True)), dim=-1).unsqueeze(1), _State(inner, started=True)

    def text(self, tokens: tuple[int, ...]) -> str:
        """The word, or "" if the tokens do not form one."""
        raise NotImplementedError


class _SpelledWord(_Words):
    """A word of several tokens (characters or subwords): letters, until something else follows. A token that is only part of a
    character (shown as <0xC3>) may be part of a letter; spelling the word out decides."""

    def __init__(self, model: LanguageRun) -> None:
        tokenizer = model.tokenizer
        text = {id: tokenizer.token(id) for id in range(tokenizer.vocab) if id not in (tokenizer.eos, tokenizer.unknown)}
        parts = [id for id, token in text.items() if "<0x" in token]
        space = "" if tokenizer.spaces == "tokens" else " ?"
        super().__init__(
            model,
            begins=parts + [id for id, token in text.items() if re.fullmatch(rf"{space}[\w'-]*", token)],
            continues=parts + [id for id, token in text.items() if re.fullmatch(r"[\w'-]+", token)],
            ends=[id for id, token in text.items() if re.match(r"[^\w'-]", token) and "<0x" not in token]
            + ([tokenizer.eos] if tokenizer.eos is not None else []),
        )

    def text(self, tokens: tuple[int, ...]) -> str:
        word = self.model.tokenizer.decode(np.asarray(tokens)).strip()
        return word if re.fullmatch(r"[\w'-]*\w[\w'-]*", word) else ""


class _OneWord(_Words):
    """A word that is one token. Text right after the blank belongs to that token but not to the filler."""

    def __init__(self, model: LanguageRun, tail: str) -> None:
        self.tail = tail
        word = re.compile(rf"[\w'-]+{re.escape(tail)}")
        tokenizer = model.tokenizer
        known = [id for id in range(tokenizer.vocab) if id not in (tokenizer.eos, tokenizer.unknown)]
        begins = [id for id in known if word.fullmatch(tokenizer.token(id))]
        super().__init__(model, begins=begins, continues=[], ends=range(tokenizer.vocab))

    def text(self, tokens: tuple[int, ...]) -> str:
        return self.model.tokenizer.token(tokens[0]).removesuffix(self.tail)


class _AnyToken(_Words):
    """Any single token."""

    def __init__(self, model: LanguageRun) -> None:
        tokens = range(model.tokenizer.vocab)
        super().__init__(model, begins=tokens, continues=[], ends=tokens)

    def text(self, tokens: tuple[int, ...]) -> str:
        return self.model.tokenizer.decode(np.asarray(tokens))


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
