"""Beam search over sentence pairs: each position of the decoder once, and the same as if everything were read anew each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from searches import beam
from torch import Tensor
from translations import CONFIGS, random_translator

from firth.decoding.graphs.replayed import Replayed
from firth.decoding.search.beam import Hypothesis
from firth.models import ConditionalDecoder, PrefixConfig, seq2seq
from firth.models.initialise import initialise

SOURCE_V, V, END, SIZE, LIMIT = 11, 13, 0, 4, 9
LENGTH_B = torch.tensor([5, 2, 6])
SOURCE_BS = torch.randint(1, SOURCE_V, (3, 6), generator=torch.Generator().manual_seed(3))


@dataclass(frozen=True)
class Endless:
    """A model that never ends a text, and notes how many positions of how many rows it was asked for."""

    model: ConditionalDecoder
    asked: list[tuple[int, int]]

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        B, T = token_BT.shape
        self.asked.append((B, T))
        logits_BTV, state = self.model.step(token_BT, state)
        logits_BTV[..., END] = -torch.inf
        return logits_BTV, state


@dataclass(frozen=True)
class Reread:
    """A state without a cache: it holds the source and all tokens so far, and reads them again."""

    source_BS: Tensor
    length_B: Tensor
    token_BT: Tensor

    def select(self, rows: Tensor) -> Reread:
        return Reread(self.source_BS[rows], self.length_B[rows], self.token_BT[rows])


@dataclass(frozen=True)
class Uncached:
    model: ConditionalDecoder

    def step(self, token_BT: Tensor, state: Reread) -> tuple[Tensor, Reread]:
        text_BT = torch.cat((state.token_BT, token_BT), dim=1)
        return self.model(state.source_BS, state.length_B, text_BT), Reread(state.source_BS, state.length_B, text_BT)


def prompt(texts: int) -> Tensor:
    return torch.full((texts, 1), END)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_prefix_is_computed_twice(name: str) -> None:
    model = random_translator(name, SOURCE_V, V)
    asked: list[tuple[int, int]] = []
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE_BS, LENGTH_B))
    texts = beam(Endless(model, asked), state, prompt(3), size=SIZE, limits=[LIMIT] * 3, end=END, unfinished=True)
    assert {len(one.tokens) for text in texts for one in text} == {LIMIT}
    # The first token of all beams comes from one reading of <eos>; the last token of each is not read.
    assert asked == [(3, 1)] + [(3 * SIZE, 1)] * (LIMIT - 1)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_cached_beam_is_an_uncached_beam(name: str, penalty: float) -> None:
    model = random_translator(name, SOURCE_V, V)
    given: dict[str, Any] = {"size": SIZE, "limits": [LIMIT, 4, LIMIT], "end": END, "penalty": penalty, "unfinished": True}
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE_BS, LENGTH_B))
    cached = beam(model, state, prompt(3), **given)
    nothing = torch.zeros(3, 0, dtype=torch.long)
    uncached = beam(Uncached(model), Reread(SOURCE_BS, LENGTH_B, nothing), prompt(3), **given)
    assert [[one.tokens for one in text] for text in cached] == [[one.tokens for one in text] for text in uncached]
    scores = [[one.score for text in texts for one in text] for texts in (cached, uncached)]
    assert scores[0] == pytest.approx(scores[1], abs=LIMIT * 10 * 2**-23)  # sums of logarithms in float32
    assert len({one.tokens for text in cached for one in text}) > SIZE, "the texts are translated differently"


class InFixedMemory:
    """A model whose states are of a fixed size from the second token on, as where steps are replayed (graphs/replayed.py)."""

    def __init__(self, model: ConditionalDecoder) -> None:
        self.model, self.begun = model, False

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits_BTV, state = self.model.step(token_BT, state)
        if not self.begun:
            self.begun, state = True, state.fixed(LIMIT)
        return logits_BTV, state


def searched(model: ConditionalDecoder, steps: Any, device: str = "cpu") -> list[list[Hypothesis]]:
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE_BS.to(device), LENGTH_B.to(device)))
    return beam(steps, state, prompt(3).to(device), size=SIZE, limits=[LIMIT] * 3, end=END, unfinished=True)


def translator(name: str) -> ConditionalDecoder:
    if name != "prefix":
        return random_translator(name, SOURCE_V, V)
    model = seq2seq(PrefixConfig(kind="prefix", width=16, depth=2, heads=2, context=32), V, V)
    initialise(model, torch.Generator().manual_seed(0))
    return model.double().eval()


@pytest.mark.parametrize("name", [*CONFIGS, "prefix"])
def test_memory_of_a_fixed_size_changes_nothing(name: str) -> None:
    """The source is padded, too."""
    model = translator(name)
    for hypotheses, expected in zip(searched(model, InFixedMemory(model)), searched(model, model), strict=True):
        assert [one.tokens for one in hypotheses] == [one.tokens for one in expected]
        assert [one.score for one in hypotheses] == pytest.approx([one.score for one in expected], rel=1e-9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [*CONFIGS, "prefix"])
def test_replayed_steps_find_what_the_cpu_finds(name: str) -> None:
    model = translator(name)
    expected = searched(model, model)
    for _ in range(3):
        replayed = Replayed(model.cuda(), LIMIT)
        texts = searched(model, replayed, "cuda")
        assert [[one.tokens for one in text] for text in texts] == [[one.tokens for one in text] for text in expected]
    assert replayed.captured is not None
    assert replayed.captured._steps
