"""Speculative decoding: the target's own text at temperature 0, and the target's own distribution otherwise."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from shares import half, third
from small_models import CONFIGS, lengths_read, random_model
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.decoding.sampling.choice import penalised, probabilities
from firth.decoding.search import speculative
from firth.decoding.search.speculative import Acceptance, accepted, speculate
from firth.models import LanguageModel

VOCAB, CONTEXT = 11, 12
DRAFTS = ["lstm", "transformer, rotary", "transformer, shaw, window", "linear"]


def prompt(length: int) -> list[int]:
    return torch.randint(VOCAB, (length,), generator=torch.Generator().manual_seed(2)).tolist()


def plain(model: LanguageModel, given: list[int], config: DecodingConfig) -> list[int]:
    return [int(token_B) for token_B in generate(model, torch.tensor([given]), config)]


def greedy(tokens: int, **options: Any) -> DecodingConfig:
    return DecodingConfig(tokens=tokens, temperature=0.0, **options)


def similar(model: LanguageModel, name: str) -> LanguageModel:
    """The same model but for some noise: it is right sometimes."""
    other, generator = random_model(name, VOCAB), torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.03 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return other


@pytest.mark.parametrize("name", third(CONFIGS))
def test_greedy_texts_are_those_of_the_target_alone(name: str) -> None:
    """With a similar draft and, from one model to the next, drafts of all kinds, also past the end of the context."""
    model, counts = random_model(name, VOCAB), Acceptance()
    truth = plain(model, prompt(4), greedy(28))
    other = DRAFTS[list(CONFIGS).index(name) % len(DRAFTS)]
    for draft in (similar(model, name), random_model(other, VOCAB, seed=1)):
        assert list(speculate(model, draft, prompt(4), greedy(28), counts)) == truth
    assert 0 < counts.accepted < counts.proposed  # both branches were taken


@pytest.mark.parametrize("length", half([1, CONTEXT - 1, CONTEXT, CONTEXT + 1, 3 * CONTEXT]))
@pytest.mark.parametrize("name", ["gru", "transformer, learned", "transformer, shaw, window", "based"])
def test_prompts_of_any_length_can_be_continued(name: str, length: int) -> None:
    model, draft = random_model(name, VOCAB), similar(random_model(name, VOCAB), name)
    assert list(speculate(model, draft, prompt(length), greedy(15))) == plain(model, prompt(length), greedy(15))


@pytest.mark.parametrize("name", ["gru", "transformer, rotary"])
def test_a_repetition_penalty_counts_proposals_as_text(name: str) -> None:
    model, config = random_model(name, VOCAB), greedy(30, repetition_penalty=9.0)
    counts = Acceptance()
    assert list(speculate(model, similar(model, name), prompt(4), config, counts)) == plain(model, prompt(4), config)
    assert counts.accepted
    assert plain(model, prompt(4), config) != plain(model, prompt(4), greedy(30))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", CONFIGS)
def test_of_a_draft_that_is_the_target_everything_is_accepted(name: str, temperature: float) -> None:
    model, counts = random_model(name, VOCAB), Acceptance()
    config = DecodingConfig(tokens=9, temperature=temperature)
    assert len(list(speculate(model, model, prompt(2), config, counts))) == 9
    assert counts.accepted == counts.proposed == 7  # 4 of them and one more, 3 and one more
    assert counts.rate == 1


def test_proposals_are_verified_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, draft = random_model("transformer, rotary", VOCAB), random_model("transformer, rotary", VOCAB)
    read = lengths_read(model, monkeypatch)
    monkeypatch.setattr(speculative, "FIRST", 3)
    assert len(list(speculate(model, draft, prompt(2), greedy(10)))) == 10
    assert read == [1, 4, 6]  # all but the last token of the prompt; 3 proposals and the token before them; 5 proposals


@pytest.mark.parametrize("name", ["rnn", "transformer, rotary", "transformer, shaw, window"])
def test_rejected_proposals_are_forgotten_without_reading_the_text_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, draft = random_model(name, VOCAB), random_model("gru", VOCAB, seed=3)
    model.context = None  # it does not slide
    read = lengths_read(model, monkeypatch)
    counts = Acceptance()
    rounds = len(list(speculate(model, draft, prompt(5), greedy(7), counts))) - counts.accepted
    again = sum(read) - 4 - rounds - counts.proposed  # 4: the prompt but for its last token
    assert counts.accepted < counts.proposed
    assert (again > 0) == (name != "transformer, rotary")  # keys and values can be cut, other states are stepped again
    assert again <= rounds + counts.accepted


def test_the_number_of_proposals_follows_the_acceptance(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model("gru", VOCAB)
    asked: list[int] = []
    propose: Callable[..., Any] = speculative._Draft.propose

    def noting(self: Any, past_N: Tensor, u_k: Tensor, config: DecodingConfig) -> Any:
        asked.append(len(u_k))
        return propose(self, past_N, u_k, config)

    monkeypatch.setattr(speculative._Draft, "propose", noting)
    list(speculate(model, model, prompt(3), greedy(80)))
    assert asked[:7] == [4, 6, 8, 10, 12, 14, 16]
    asked.clear()
    wrong = random_model("gru", VOCAB, seed=3)
    with torch.no_grad():
        wrong.output.bias.copy_(torch.tensor([100.0] + [0.0] * (VOCAB - 1)))  # type: ignore[union-attr]
        model.output.bias[0] = -100.0  # type: ignore[index,union-attr]
    list(speculate(model, wrong, prompt(3), greedy(8)))
    assert asked == [4, 3, 2, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("name", ["lstm", "transformer, rotary", "transformer, shaw, window", "linear"])
def test_a_draft_forgets_what_was_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each proposal comes from what the draft gives after the text so far, read from its beginning."""
    model, draft = random_model("gru", VOCAB), similar(random_model(name, VOCAB), name)
    draft.context, written, counts = None, prompt(4), Acceptance()  # it does not slide
    propose: Callable[..., Any] = speculative._Draft.propose

    def checking(self: Any, past_N: Tensor, u_k: Tensor, config: DecodingConfig) -> Any:
        token_k, q_kV = propose(self, past_N, u_k, config)
        with torch.no_grad():
            logits_1TV, _ = draft(torch.tensor([[*written, *token_k.tolist()]]))
        truth_kV = torch.softmax(logits_1TV[0, len(written) - 1 : -1].float(), -1, dtype=torch.float64)
        torch.testing.assert_close(q_kV, truth_kV, rtol=1e-5, atol=1e-7)
        return token_k, q_kV

    monkeypatch.setattr(speculative._Draft, "propose", checking)
    for token in speculate(model, draft, prompt(4), DecodingConfig(tokens=25, seed=1), counts):
        written.append(token)
    assert 0 < counts.accepted < counts.proposed


SMALL = 4  # tokens of the vocabulary of the tests of distributions


def exact(model: LanguageModel, given: list[int], config: DecodingConfig) -> dict[tuple[int, ...], float]:
    """The probability of every continuation of config.tokens tokens, without a state."""
    p_of = {}
    for tokens in itertools.product(range(SMALL), repeat=config.tokens):
        p = 1.0
        for n, token in enumerate(tokens):
            text = torch.tensor([[*given, *tokens[:n]]])
            with torch.no_grad():
                logits_1V = penalised(model(text)[0][:, -1], config, text).float()
            p *= float(probabilities(logits_1V, config)[0, token])
        p_of[tokens] = p
    return p_of


SETTINGS: dict[str, dict[str, Any]] = {
    "all tokens": {},
    "top_k": {"top_k": 3, "temperature": 1.4},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.15, "temperature": 0.8},
    "repetition": {"repetition_penalty": 1.6},
}


PAIRS = [("rnn", "gru"), ("rnn", "transformer, rotary"), ("transformer, learned", "transformer, rotary")]


def test_a_few_samples_have_the_distribution_of_the_target() -> None:
    compare_distributions("transformer, learned", "gru", DecodingConfig(tokens=3, top_p=0.9), 200)


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS)
def test_samples_have_the_distribution_of_the_target(settings: str) -> None:
    compare_distributions("transformer, learned", "gru", DecodingConfig(tokens=3, **SETTINGS[settings]), 2500)


@pytest.mark.long
@pytest.mark.parametrize(("name", "draft"), PAIRS)
def test_samples_of_every_pair_have_the_distribution_of_the_target(name: str, draft: str) -> None:
    compare_distributions(name, draft, DecodingConfig(tokens=3), 2500)


def compare_distributions(name: str, draft: str, config: DecodingConfig, draws: int) -> None:
    """The probability of each text of config.tokens tokens, by a χ² test."""
    model, other, counts = random_model(name, SMALL), random_model(draft, SMALL, seed=4), Acceptance()
    truth = exact(model, [1, 0], config)
    texts = (tuple(speculate(model, other, [1, 0], dataclasses.replace(config, seed=seed), counts)) for seed in range(draws))
    seen = Counter(texts)
    assert all(truth[text] > 0 for text in seen)
    assert chi_square(seen, truth, draws) > 0.001
    assert 0.1 < counts.rate < 0.95
    assert chi_square(seen, exact(other, [1, 0], config), draws) < 1e-6  # the test can tell the two models apart


def chi_square(seen: Counter[tuple[int, ...]], truth: dict[tuple[int, ...], float], draws: int) -> float:
    """The p-value; texts that are expected fewer than 5 times are counted together."""
    often = [text for text, p in truth.items() if p * draws >= 5]
    expected, observed = [truth[text] * draws for text in often], [seen[text] for text in often]
    rest = draws - sum(expected)
    if rest > 5:
        expected, observed = [*expected, rest], [*observed, draws - sum(observed)]
    else:  # too few to be compared
        expected = [value * sum(observed) / sum(expected) for value in expected]
    return float(chisquare(observed, expected).pvalue)


def test_one_decision_has_the_distribution_of_the_target() -> None:
    """min(q, p) + (1 − Σ min(q, p)) · (p − q)₊ / Σ (p − q)₊ = p, integrated over the random numbers on a grid."""
    p_V = torch.tensor([0.5, 0.3, 0.0, 0.2], dtype=torch.float64)
    q_V = torch.tensor([0.1, 0.2, 0.4, 0.3], dtype=torch.float64)
    drawn_V, bonus_V = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    bonus_V[3] = 1.0
    grid = (torch.arange(15, dtype=torch.float64) + 0.5) / 15
    for token, q in enumerate(q_V.tolist()):
        for accept, last in itertools.product(grid, grid):
            new = accepted(torch.tensor([token]), q_V[None], torch.stack((p_V, bonus_V)), torch.stack((accept, last)))
            assert len(new) == 1 or new[1] == 3  # the token after an accepted one is drawn from the target
            drawn_V[new[0]] += q / 225
    torch.testing.assert_close(drawn_V, p_V, rtol=0, atol=0.03)


def test_the_seed_decides_the_text() -> None:
    model, draft = random_model("lstm", VOCAB), random_model("rnn", VOCAB)
    first, again, other = (list(speculate(model, draft, prompt(3), DecodingConfig(tokens=20, seed=seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("sizes", [(9, VOCAB), (VOCAB, 9)], ids=["a smaller draft", "a larger draft"])
def test_output_layers_may_be_padded_differently(sizes: tuple[int, int]) -> None:
    model, draft = random_model("gru", sizes[1]), random_model("rnn", sizes[0], seed=1)
    given = [token % 9 for token in prompt(4)]
    assert list(speculate(model, draft, given, greedy(20))) == plain(model, given, greedy(20))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("name", ["gru", "transformer, learned", "transformer, shaw, window", "based"])
def test_on_a_gpu_a_recorded_draft_is_wound_back_too(name: str, draft: str) -> None:
    """Its steps are replayed, and each writes over the state before it. Everything is accepted of a draft that is the target."""
    model, other, counts = random_model(name, VOCAB).cuda(), random_model(draft, VOCAB, seed=1).cuda(), Acceptance()
    truth = plain(random_model(name, VOCAB), prompt(4), greedy(60))
    assert list(speculate(model, other, prompt(4), greedy(60))) == truth
    assert list(speculate(model, random_model(name, VOCAB).cuda(), prompt(4), greedy(60), counts)) == truth
    assert counts.rate > 0.8  # the two read a full context again at different times
    noisy, on_cpu, on_gpu = similar(model, name), Acceptance(), Acceptance()
    list(speculate(random_model(name, VOCAB), noisy, prompt(4), greedy(60), on_cpu))
    list(speculate(model, noisy.cuda(), prompt(4), greedy(60), on_gpu))
    assert (on_gpu.proposed, on_gpu.accepted) == (on_cpu.proposed, on_cpu.accepted)
