"""Beam search, against looking at every sequence there is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from small_models import CONFIGS, random_model
from torch import Tensor

from firth.decoding.beam import Hypothesis, beam
from firth.models import LanguageModel

VOCAB, STEPS, END = 5, 4, 0
ALL = VOCAB**STEPS
PROMPT_T = torch.tensor([3, 1, 4])


def ended(tokens: tuple[int, ...]) -> bool:
    return tokens[-1] == END


def log_p(model: LanguageModel, tokens: tuple[int, ...]) -> float:
    """Σ log p(token | prompt and what came before), read at once and without a state."""
    text_T = torch.cat((PROMPT_T, torch.tensor(tokens, dtype=torch.long)))
    with torch.inference_mode():
        log_p_TV: Tensor = torch.log_softmax(model(text_T.unsqueeze(0))[0][0].double(), -1)
    return sum(float(log_p_TV[len(PROMPT_T) - 1 + n, token]) for n, token in enumerate(tokens))


def exhaustive(model: LanguageModel) -> list[Hypothesis]:
    found = [
        Hypothesis((*body, END), log_p(model, (*body, END)))
        for length in range(STEPS)
        for body in itertools.product(range(1, VOCAB), repeat=length)
    ]
    return sorted(found, key=lambda hypothesis: -hypothesis.log_probability)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "gru, reset before"])
def test_a_wide_beam_equals_exhaustive_search(name: str) -> None:
    model = random_model(name, VOCAB)
    found, truth = beam(model, PROMPT_T, size=ALL, steps=STEPS, finished=ended), exhaustive(model)
    assert [h.tokens for h in found] == [h.tokens for h in truth]
    # float32 sums of `STEPS` logarithms of up to about 10
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in truth], abs=STEPS * 10 * 2**-23)


@pytest.mark.parametrize("name", ["lstm", "transformer, learned"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_narrow_beam_gives_true_scores_in_order(name: str, size: int) -> None:
    model = random_model(name, VOCAB)
    found = beam(model, PROMPT_T, size=size, steps=STEPS, finished=ended)
    scores = [h.log_probability for h in found]
    assert len(found) <= size
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([log_p(model, h.tokens) for h in found], abs=STEPS * 10 * 2**-23)


def test_only_finished_hypotheses_are_returned_and_none_goes_on_after_its_end() -> None:
    found = beam(random_model("gru", VOCAB), PROMPT_T, size=ALL, steps=STEPS, finished=ended)
    assert all(h.tokens.count(END) == 1 and h.tokens[-1] == END for h in found)
    assert beam(random_model("gru", VOCAB), PROMPT_T, size=3, steps=STEPS, finished=lambda tokens: False) == []


def test_a_search_that_may_stop_at_once_gives_the_most_probable_tokens() -> None:
    model = random_model("rnn", VOCAB)
    found = beam(model, PROMPT_T, size=3, steps=STEPS, finished=lambda tokens: True)
    assert [h.tokens for h in found] == sorted([(n,) for n in range(VOCAB)], key=lambda t: -log_p(model, t))[:3]


def test_the_last_token_of_a_hypothesis_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with learned positions has room for prompt + steps − 1 tokens and not for one more."""
    model = random_model("transformer, learned", VOCAB)
    assert model.context == 12
    prompt_T = torch.tensor([1, 2, 3, 4, 1, 2, 3, 4, 1])
    reads: list[int] = []
    hidden: Any = model.hidden
    monkeypatch.setattr(model, "hidden", lambda token, state=None: (reads.append(token.shape[1]), hidden(token, state))[1])
    assert beam(model, prompt_T, size=ALL, steps=4, finished=ended)
    assert sum(reads) == 12
