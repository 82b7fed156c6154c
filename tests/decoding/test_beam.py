"""Beam search, against looking at every sequence there is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from searches import beam
from shares import half, third
from small_models import CONFIGS, random_model
from torch import Tensor

from firth.decoding.search.beam import BLOCK, Hypothesis, _candidates
from firth.models import LanguageModel

VOCAB, STEPS, END = 5, 4, 0
ALL = VOCAB**STEPS
PROMPT_T = torch.tensor([3, 1, 4])


def searched(model: LanguageModel, prompt_T: Tensor = PROMPT_T, **given: Any) -> list[Hypothesis]:
    settings: dict[str, Any] = {"limits": [STEPS], "end": END} | given
    return beam(model, model.start(1), prompt_T.unsqueeze(0), **settings)[0]


def log_p(model: LanguageModel, tokens: tuple[int, ...]) -> float:
    """Σ log p(token | prompt and what came before), read at once and without a state."""
    text_T = torch.cat((PROMPT_T, torch.tensor(tokens, dtype=torch.long)))
    with torch.inference_mode():
        log_p_TV: Tensor = torch.log_softmax(model(text_T.unsqueeze(0))[0][0].double(), -1)
    return sum(float(log_p_TV[len(PROMPT_T) - 1 + n, token]) for n, token in enumerate(tokens))


def exhaustive(model: LanguageModel, penalty: float = 0.0) -> list[Hypothesis]:
    hypotheses = []
    for length in range(STEPS):
        for body in itertools.product(range(1, VOCAB), repeat=length):
            nats = log_p(model, (*body, END))
            hypotheses.append(Hypothesis((*body, END), nats, nats / ((6 + length) / 6) ** penalty))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("name", half([name for name in CONFIGS if name != "gru, reset before"]))
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_equals_exhaustive_search(name: str, penalty: float) -> None:
    model = random_model(name, VOCAB)
    hypotheses, truth = searched(model, size=ALL, penalty=penalty), exhaustive(model, penalty)
    assert [h.tokens for h in hypotheses] == [h.tokens for h in truth]
    # float32 sums of `STEPS` logarithms of up to about 10
    assert [h.log_probability for h in hypotheses] == pytest.approx([h.log_probability for h in truth], abs=STEPS * 10 * 2**-23)


@pytest.mark.parametrize("name", ["lstm", "transformer, learned"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_narrow_beam_gives_true_scores_in_order(name: str, size: int) -> None:
    model = random_model(name, VOCAB)
    hypotheses = searched(model, size=size)
    scores = [h.log_probability for h in hypotheses]
    assert len(hypotheses) <= size
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([log_p(model, h.tokens) for h in hypotheses], abs=STEPS * 10 * 2**-23)


def test_only_finished_hypotheses_are_returned_and_none_goes_on_after_its_end() -> None:
    hypotheses = searched(random_model("gru", VOCAB), size=ALL)
    assert all(h.tokens.count(END) == 1 and h.tokens[-1] == END for h in hypotheses)
    assert searched(random_model("gru", VOCAB), size=3, end=VOCAB) == []


# --- what ends a text, and what is penalised


def every(model: LanguageModel, length: int = STEPS) -> list[tuple[int, ...]]:
    """Every text of up to `length` tokens that ends with END, and every one of `length` tokens that has not ended."""
    texts = [body for n in range(length + 1) for body in itertools.product(range(1, VOCAB), repeat=n)]
    return [(*body, END) for body in texts if len(body) < length] + [body for body in texts if len(body) == length]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_with_limit_ends_unfinished_texts_compete_with_finished_ones(penalty: float) -> None:
    model = random_model("gru", VOCAB)
    truth = {tokens: log_p(model, tokens) for tokens in every(model)}
    hypotheses = searched(model, size=2 * ALL, penalty=penalty, limit_ends=True)
    assert {h.tokens for h in hypotheses} == set(truth)
    assert [h.finished for h in hypotheses] == [h.tokens[-1] == END for h in hypotheses]
    assert [h.log_probability for h in hypotheses] == pytest.approx(
        [truth[h.tokens] for h in hypotheses], abs=STEPS * 10 * 2**-23
    )
    ranked = sorted(truth, key=lambda tokens: -truth[tokens] / ((5 + len(tokens)) / 6) ** penalty)
    assert [h.tokens for h in hypotheses] == ranked


def test_a_text_can_end_with_several_tokens() -> None:
    """Token 2 after token 4, as a stop string that spans two tokens would."""
    model = random_model("lstm", VOCAB)

    def ended(text: int, tokens: tuple[int, ...]) -> bool:
        return text == 0 and tokens[-2:] == (4, 2)

    def possible(tokens: tuple[int, ...]) -> bool:
        return not any(tokens[n : n + 2] == (4, 2) for n in range(len(tokens) - 2))

    early = [(*body, 4, 2) for n in range(STEPS - 2) for body in itertools.product(range(1, VOCAB), repeat=n)]
    truth = {tokens: log_p(model, tokens) for tokens in [*every(model), *early] if possible(tokens)}
    hypotheses = searched(model, size=2 * ALL, limit_ends=True, ended=ended)
    assert [h.tokens for h in hypotheses] == sorted(truth, key=lambda tokens: -truth[tokens])
    assert [h.finished for h in hypotheses] == [h.tokens[-1] == END or h.tokens[-2:] == (4, 2) for h in hypotheses]
    assert any(h.tokens == (4, 2) for h in hypotheses)


@pytest.mark.parametrize("seen", half([None, PROMPT_T], 1), ids=["generated tokens", "the prompt, too"])
def test_a_beam_with_a_repetition_penalty_ranks_by_the_penalised_distribution(seen: Tensor | None) -> None:
    model, theta = random_model("rnn", VOCAB), 1.7

    def penalised(tokens: tuple[int, ...]) -> float:
        total = 0.0
        for n, token in enumerate(tokens):
            text_T = torch.cat((PROMPT_T, torch.tensor(tokens[:n], dtype=torch.long)))
            with torch.no_grad():
                x_V = model(text_T.unsqueeze(0))[0][0, -1].double()
            for old in {*tokens[:n], *([] if seen is None else seen.tolist())}:
                x_V[old] = x_V[old] * theta if x_V[old] < 0 else x_V[old] / theta
            total += float(x_V.log_softmax(0)[token])
        return total

    truth = {tokens: penalised(tokens) for tokens in every(model)}
    seen_BP = None if seen is None else seen.unsqueeze(0)
    hypotheses = searched(model, size=2 * ALL, limit_ends=True, repetition=theta, seen_BP=seen_BP)
    assert [h.tokens for h in hypotheses] == sorted(truth, key=lambda tokens: -truth[tokens])
    close = STEPS * 10 * 2**-22
    assert [h.score for h in hypotheses] == pytest.approx([truth[h.tokens] for h in hypotheses], abs=close)
    assert [h.log_probability for h in hypotheses] == pytest.approx([log_p(model, h.tokens) for h in hypotheses], abs=close)


class Chain:
    """A Markov chain over V tokens; `end` is V and has no row, and some transitions are impossible."""

    def __init__(self, vocab: int) -> None:
        generator = torch.Generator().manual_seed(vocab)
        self.log_p_VE = torch.randn(vocab, vocab + 1, generator=generator)
        self.log_p_VE[torch.rand(vocab, vocab + 1, generator=generator) < 0.4] = -torch.inf
        self.log_p_VE[:, -1] = -1.0  # the end is always possible
        self.log_p_VE = torch.log_softmax(self.log_p_VE, -1)

    def step(self, token_BT: Tensor, state: Chain) -> tuple[Tensor, Chain]:
        return self.log_p_VE[token_BT], state

    def select(self, rows: Tensor) -> Chain:
        return self

    def every(self, steps: int) -> dict[tuple[int, ...], float]:
        """log p of every possible sequence of up to `steps` tokens that ends, after token 0."""
        vocab, nats_of = len(self.log_p_VE), {}
        alive: dict[tuple[int, ...], float] = {(): 0.0}
        for _ in range(steps):
            for before, nats in alive.items():
                nats_of[(*before, vocab)] = nats + float(self.log_p_VE[before[-1] if before else 0, vocab])
            alive = {
                (*before, token): nats + float(self.log_p_VE[before[-1] if before else 0, token])
                for before, nats in alive.items()
                for token in range(vocab)
                if self.log_p_VE[before[-1] if before else 0, token] > -torch.inf
            }
        return nats_of


@pytest.mark.parametrize("vocab", third(range(2, 21)))
def test_a_beam_may_be_wider_than_there_are_continuations(vocab: int) -> None:
    """As in `firth complete runs/hello "h__"`: the dead beams once stepped with the end, which has no embedding."""
    chain = Chain(vocab)
    every = chain.every(steps=3)
    enough = len(every) * (vocab + 1)
    for size in [*range(1, 2 * vocab + 3), enough]:
        (hypotheses,) = beam(chain, chain, torch.zeros(1, 1, dtype=torch.long), size=size, limits=[3], end=vocab)
        assert len({h.tokens for h in hypotheses}) == len(hypotheses) <= size
        assert [h.log_probability for h in hypotheses] == pytest.approx([every[h.tokens] for h in hypotheses], abs=1e-5)
        if size == enough:
            assert {h.tokens for h in hypotheses} == set(every)


def test_what_has_not_ended_is_returned_where_that_is_wanted_and_marked() -> None:
    hypotheses = searched(random_model("gru", VOCAB), size=3, end=VOCAB, unfinished=True)
    assert [(len(h.tokens), h.finished) for h in hypotheses] == [(STEPS, False)] * 3
    assert all(h.finished for h in searched(random_model("gru", VOCAB), size=ALL, unfinished=True))


@pytest.mark.parametrize("name", ["lstm", "transformer, learned"])
def test_texts_searched_together_are_searched_as_if_alone(name: str) -> None:
    """With limits of their own, so that some are done before others."""
    model, prompt_BT, limits = random_model(name, VOCAB), torch.tensor([[3, 1, 4], [2, 2, 2], [1, 4, 3]]), [4, 1, 3]
    together = beam(model, model.start(3), prompt_BT, size=3, limits=limits, end=END, penalty=0.6)
    for hypotheses, prompt_T, limit in zip(together, prompt_BT, limits, strict=True):
        alone = searched(model, prompt_T, size=3, limits=[limit], penalty=0.6)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], abs=1e-5)


@pytest.mark.parametrize("vocab", [8 * BLOCK, 8 * BLOCK + 1, 9 * BLOCK - 1], ids=["whole blocks", "one token over", "one short"])
@pytest.mark.parametrize("beams", [1, 3])
def test_the_best_of_a_large_vocabulary_are_those_of_sorting_it_all(vocab: int, beams: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    logits, score_AS = torch.randn(4 * beams, vocab, generator=generator), torch.randn(4, beams, generator=generator)
    logits[1, -1] = logits[2, 0] = 9.0  # at both ends
    logits[3, BLOCK : BLOCK + 6] = 8.0 + torch.arange(6)  # several in one block
    score_AS[3, beams - 1] = -torch.inf if beams > 1 else 0.0  # a beam that nobody is in
    assert beams * (vocab // BLOCK) > 6, "or there is nothing to test: a small vocabulary is sorted"
    best_AC, parent_AC, token_AC = _candidates(logits, score_AS, 6)
    score_ASV = score_AS.unsqueeze(-1) + logits.log_softmax(-1).view(4, beams, vocab)
    truth_AC, place_AC = score_ASV.flatten(1).sort(dim=1, descending=True)
    assert torch.equal(best_AC, truth_AC[:, :6])
    assert torch.equal(parent_AC * vocab + token_AC, place_AC[:, :6])


def test_the_last_token_of_a_hypothesis_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with learned positions has room for prompt + steps − 1 tokens and not for one more."""
    model = random_model("transformer, learned", VOCAB)
    assert model.context == 12
    prompt_T = torch.tensor([1, 2, 3, 4, 1, 2, 3, 4, 1])
    reads: list[int] = []
    hidden: Any = model.hidden
    monkeypatch.setattr(model, "hidden", lambda token, state=None: (reads.append(token.shape[1]), hidden(token, state))[1])
    assert searched(model, prompt_T, size=ALL)
    assert sum(reads) == 12


class Scripted:
    """Ends with the given probabilities, one for each step, and otherwise says token 1; counts its steps."""

    def __init__(self, *ending: float) -> None:
        self.ending, self.steps = ending, 0

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        end = self.ending[min(self.steps, len(self.ending) - 1)]
        self.steps += 1
        return torch.tensor([end, 1 - end]).log().expand(len(token_BT), 1, 2), self

    def select(self, rows: Tensor) -> Scripted:
        return self


def test_with_a_penalty_a_text_is_done_when_nothing_alive_would_be_better_by_ending_now() -> None:
    prompt = torch.zeros(1, 1, dtype=torch.long)
    early = Scripted(0.6, 0.1)
    (hypotheses,) = beam(early, early, prompt, size=1, limits=[50], end=0, penalty=1.0)
    assert (hypotheses[0].tokens, early.steps) == ((0,), 1), "log 0.4 / lp(2) is below log 0.6, though log 0.4 / lp(50) is not"
    late = Scripted(0.4, 1 - 1e-6)
    (hypotheses,) = beam(late, late, prompt, size=1, limits=[50], end=0, penalty=1.0)
    assert (hypotheses[0].tokens, late.steps) == ((1, 0), 2)
    assert hypotheses[0].score == pytest.approx(math.log(0.6) / (7 / 6), abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("banned", [(), (0,), (5, 130, 131, 999)])
@pytest.mark.parametrize("vocab", [1000, 1024])
def test_the_best_candidates_are_those_of_all_probabilities(banned: tuple[int, ...], vocab: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, score_AS = 3 * torch.randn(6, vocab, generator=generator), -torch.rand(2, 3, generator=generator)
    given = logits.clone()
    log_p_ASV = torch.log_softmax(logits.double(), -1).view(2, 3, vocab)
    log_p_ASV[..., list(banned)] = -torch.inf
    exact_AC, place_AC = (score_AS.unsqueeze(-1) + log_p_ASV).flatten(1).topk(6)
    total_AC, parent_AC, token_AC = _candidates(logits, score_AS, 6, None, banned)
    torch.testing.assert_close(total_AC.double(), exact_AC, rtol=1e-6, atol=2e-6)
    assert torch.equal(parent_AC * vocab + token_AC, place_AC)
    assert torch.equal(logits, given)
