"""Choosing the next token, against Hugging Face's warpers, brute force and the distribution itself."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.candidates import Candidates
from firth.decoding.sampling.choice import penalised, pick
from firth.decoding.sampling.draw import random_numbers
from firth.decoding.sampling.rows import FilterRows, TextSoFar
from firth.errors import ConfigError

B, V = 6, 40


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(rows: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(random_numbers(seed, 0).random(rows))


def logits(rows: int = B, vocab: int = V, seed: int = 3) -> Tensor:
    return 2 * torch.randn(rows, vocab, generator=generator(seed), dtype=torch.float64)


def filtered(logits_BV: Tensor, config: DecodingConfig) -> Tensor:
    """The logits after all filters of sampling that act."""
    candidates, rows = Candidates(logits_BV), FilterRows([TextSoFar(config)], logits_BV.device)
    for one in config.acting:
        candidates = one.apply(candidates, rows)
    return candidates.logits()


def restrict(logits_BV: Tensor, top_k: int, top_p: float) -> Tensor:
    return filtered(logits_BV, DecodingConfig(top_k=top_k, top_p=top_p))


def kept(logits_BV: Tensor, top_k: int, top_p: float) -> list[set[int]]:
    return [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in restrict(logits_BV, top_k, top_p)]


def brute_force(row: list[float], top_k: int, top_p: float) -> set[int]:
    """Take tokens by falling logit, ties by rising id, until there are k or their probability among those k reaches p."""
    order = sorted(range(len(row)), key=lambda n: (-row[n], n))[: top_k or len(row)]
    total = math.fsum(math.exp(row[n]) for n in order)
    taken: list[int] = []
    for n in order:
        if taken and math.fsum(math.exp(row[m]) for m in taken) / total >= top_p:
            break
        taken.append(n)
    return set(taken)


def hugging_face() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    reason = "the oracle is Hugging Face's; make test installs it"
    return pytest.importorskip("transformers.generation.logits_process", reason=reason)


CUTS = [(1, 1.0), (3, 1.0), (V - 1, 1.0), (V, 1.0), (V + 5, 1.0), (0, 0.05), (0, 0.5), (0, 0.9), (0, 0.999), (10, 0.7), (3, 0.3)]


@pytest.mark.parametrize(("top_k", "top_p"), CUTS)
def test_top_k_and_top_p_keep_what_brute_force_keeps(top_k: int, top_p: float) -> None:
    logits_BV = logits()
    assert kept(logits_BV, top_k, top_p) == [brute_force(row, top_k, top_p) for row in logits_BV.tolist()]


@pytest.mark.parametrize(("top_k", "top_p"), CUTS)
def test_top_k_and_top_p_equal_hugging_face(top_k: int, top_p: float) -> None:
    process = hugging_face()
    theirs_BV = logits()
    if top_k:
        theirs_BV = process.TopKLogitsWarper(top_k)(None, theirs_BV)
    if top_p < 1:
        theirs_BV = process.TopPLogitsWarper(top_p)(None, theirs_BV)
    assert torch.equal(restrict(logits(), top_k, top_p), theirs_BV)


@pytest.mark.parametrize("min_p", [0.001, 0.02, 0.1, 0.5, 0.99, 1.0])
def test_min_p_equals_hugging_face_and_its_definition(min_p: float) -> None:
    kept_BV = filtered(logits(), DecodingConfig(min_p=min_p))
    assert torch.equal(kept_BV, hugging_face().MinPLogitsWarper(min_p)(None, logits()))
    for row, cut in zip(logits().tolist(), kept_BV.tolist(), strict=True):
        assert [x > -math.inf for x in cut] == [math.exp(x - max(row)) >= min_p for x in row]


def test_top_k_and_top_p_and_min_p_act_together_as_in_hugging_face() -> None:
    process, theirs_BV = hugging_face(), logits()
    for warper in (process.TopKLogitsWarper(20), process.TopPLogitsWarper(0.95), process.MinPLogitsWarper(0.08)):
        theirs_BV = warper(None, theirs_BV)
    kept_BV = filtered(logits(), DecodingConfig(top_k=20, top_p=0.95, min_p=0.08))
    assert torch.equal(kept_BV, theirs_BV)
    assert 1 < int(kept_BV.isfinite().sum(1).min()) < 20


@pytest.mark.parametrize("penalty", [0.7, 1.0, 1.2, 3.0])
def test_the_repetition_penalty_equals_hugging_face(penalty: float) -> None:
    token_BN = torch.randint(V, (B, 9), generator=generator(1))
    assert any(len(set(row)) < 9 for row in token_BN.tolist()), "or no token occurs twice"
    theirs_BV = hugging_face().RepetitionPenaltyLogitsProcessor(penalty)(token_BN, logits())
    assert torch.equal(penalised(logits(), DecodingConfig(repetition_penalty=penalty), token_BN), theirs_BV)


def test_a_repetition_penalty_lowers_positive_and_negative_logits_once() -> None:
    x_1V = torch.tensor([[3.0, -3.0, 1.0, -1.0]])
    config = DecodingConfig(repetition_penalty=1.5)
    assert penalised(x_1V, config, torch.tensor([[0, 1, 1, 0, 0]])).tolist() == [[2.0, -4.5, 1.0, -1.0]]
    assert torch.equal(penalised(x_1V, config, torch.zeros(1, 0, dtype=torch.long)), x_1V)


def test_what_stays_keeps_its_logit() -> None:
    logits_BV = logits()
    cut_BV = restrict(logits_BV, 5, 0.9)
    assert torch.equal(cut_BV[cut_BV.isfinite()], logits_BV[cut_BV.isfinite()])


def test_nothing_is_cut_by_default() -> None:
    assert torch.equal(restrict(logits(), 0, 1.0), logits())


def test_ties_go_to_the_smaller_id() -> None:
    tied_1V = torch.tensor([[0.0, 1.0, 1.0, 1.0]])
    assert kept(tied_1V, 2, 1.0) == [{1, 2}]
    assert kept(torch.zeros(1, 5000), 3, 1.0) == [{0, 1, 2}]  # so many that an unstable sort would show
    assert kept(torch.zeros(1, 4), 0, 0.5) == [{0, 1}]  # ¼ + ¼ reaches ½ exactly; a third token is not needed


def test_at_least_one_token_stays() -> None:
    assert kept(torch.tensor([[9.0, 0.0, 0.0]]), 0, 1e-9) == [{0}]
    assert kept(torch.tensor([[0.0, 9.0, 0.0]]), 1, 1e-9) == [{1}]


def test_the_nucleus_is_that_of_the_distribution_left_after_top_k() -> None:
    """p = .4 .3 .2 .1: of all, .55 takes two tokens; of the top two, the first has .4 / .7 = .57 by itself."""
    row_1V = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert kept(row_1V, 0, 0.55) == [{0, 1}]
    assert kept(row_1V, 2, 0.55) == [{0}]


def test_temperature_zero_is_greedy_whatever_else_is_asked_for() -> None:
    config = DecodingConfig(temperature=0.0, top_k=3, top_p=0.2)
    assert torch.equal(pick(logits(), config, uniform(B)), logits().argmax(-1))


def test_top_k_of_one_is_greedy() -> None:
    assert torch.equal(pick(logits(), DecodingConfig(top_k=1), uniform(B, 5)), logits().argmax(-1))


def test_the_same_seed_draws_the_same_tokens_and_another_seed_others() -> None:
    wide_BV = logits(200)
    first, again, other = (pick(wide_BV, DecodingConfig(), uniform(200, seed)) for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        # limit: χ² is above it once in 10⁴ draws, for 7, 7, 7 and 2 degrees of freedom
        ({}, 29.9),
        ({"temperature": 0.5}, 29.9),
        ({"temperature": 3.0}, 29.9),
        ({"top_k": 3}, 18.4),
        ({"min_p": 1.0}, 0.0001),
    ],
    ids=str,
)
def test_frequencies_follow_the_distribution(options: dict[str, Any], limit: float) -> None:
    draws, config = 20_000, DecodingConfig(**options)
    row = logits(1, 8, seed=4)[0].float().tolist()
    weight = [math.exp(x / config.temperature) for x in row]
    if config.top_k:
        least = sorted(weight)[-config.top_k]
        weight = [w if w >= least else 0.0 for w in weight]
    weight = [w if w >= config.min_p * max(weight) else 0.0 for w in weight]
    expected = [draws * w / sum(weight) for w in weight]
    drawn = pick(torch.tensor(row).expand(draws, -1), config, uniform(draws))
    seen = torch.bincount(drawn, minlength=8).tolist()
    assert all(count == 0 for count, e in zip(seen, expected, strict=True) if e == 0)
    assert sum((count - e) ** 2 / e for count, e in zip(seen, expected, strict=True) if e > 0) < limit


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": 0},
        {"temperature": -0.1},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"seed": -1},
        {"beam": 0},
        {"beam_groups": 0},
        {"beam_groups": 2},
        {"diversity": -1.0},
        {"stop": ("a", "")},
    ],
    ids=str,
)
def test_impossible_options_are_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=rf"decoding\.{name} is .*; expected "):
        DecodingConfig(**wrong)


def test_the_groups_of_a_beam_are_of_equal_size() -> None:
    assert DecodingConfig(beam=6, beam_groups=3).beam_groups == 3
    with pytest.raises(ConfigError, match=r"decoding\.beam_groups is 4; expected a divisor of decoding\.beam, which is 6"):
        DecodingConfig(beam=6, beam_groups=4)
