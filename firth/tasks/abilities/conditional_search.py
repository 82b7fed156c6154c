"""Greedy decoding, sampling and beam search of decoders that attend to a memory: of a text or of an image."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.graphs.replayed import Replayed
from firth.decoding.loop import StepwiseModel
from firth.decoding.search.beam import Hypothesis, beam
from firth.decoding.search.considered import Note
from firth.decoding.search.sequences import decode
from firth.models import ConditionalDecoder
from firth.text.tokenizers.special_tokens import DecoderTokens
from firth.text.tokenizers.tokenizer import Tokenizer

_PACE = 0.1  # seconds between two ticks


@dataclass(frozen=True)
class SearchedText:
    """One text of the beam."""

    text: str
    log_probability: float  # Σ log p(token | earlier tokens, source), <eos> included
    score: float  # the beam's ranking: log_probability over the length penalty
    finished: bool = True  # False: cut off at decoding.tokens

    @classmethod
    def of(cls, hypothesis: Hypothesis, tokenizer: Tokenizer) -> Self:
        """The text in one line, without <eos>."""
        text = line_of(hypothesis.tokens[:-1] if hypothesis.finished else hypothesis.tokens, tokenizer)
        return cls(text, hypothesis.log_probability, hypothesis.score, hypothesis.finished)


def search(
    network: ConditionalDecoder,
    encode: Callable[[], Any],
    config: DecodingConfig,
    numbers: Sequence[int],
    end: int,
    tokens: DecoderTokens | None = None,
    *,
    sample: bool = False,
    longest: int | None = None,
    note: Note | None = None,
    tick: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """The texts generated for each row of the memory that `encode` returns, best first: config.beam texts, or one. `numbers`
    are those of the rows, on which sampling depends; `end` is <eos>, `tokens` what an imported decoder begins with, and `longest`
    the most tokens that the network has positions for. `note` hears of every step of a beam; greedy decoding has none. `tick` is
    called between steps, a few times a second, and may end the search with an exception."""
    device = next(network.parameters()).device
    with torch.inference_mode():
        state = network.start(encode())
    start, first, banned = tokens or DecoderTokens(end)
    prompt_B1 = torch.full((len(numbers), 1), start, device=device)
    most = min(config.tokens, longest or config.tokens)
    limits, replayed = [most] * len(numbers), Replayed(network, most)
    model: StepwiseModel = replayed if tick is None else _Ticking(replayed, tick)
    if sample or config.beam == 1:
        chosen = config if sample else dataclasses.replace(config, temperature=0.0)
        hypotheses = decode(model, state, prompt_B1, chosen, numbers, limits=limits, end=end, first=first, banned=banned)
        return [[one] for one in hypotheses]
    return beam(model, state, prompt_B1, config, limits=limits, end=end, unfinished=True, first=first, banned=banned, note=note)


class _Ticking:
    def __init__(self, model: StepwiseModel, tick: Callable[[], None]) -> None:
        self._model, self._tick, self._next = model, tick, 0.0

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _PACE
            self._tick()
        return self._model.step(token_BT, state)


def line_of(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    return " ".join(tokenizer.decode(tokens).split())
