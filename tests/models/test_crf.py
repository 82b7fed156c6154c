"""The linear-chain CRF against every sequence of tags there is."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.models.crf import CRF
from firth.oracles import crf as oracle


class Case(NamedTuple):
    crf: CRF
    emission_BWC: Tensor
    tag_BW: Tensor
    count_B: Tensor

    def truth(self, row: int) -> oracle.CrfResult:
        return oracle.crf(self.emission_BWC[row, : self.count_B[row]].detach().numpy(), *self.parameters())

    def parameters(self) -> tuple[oracle.Array, oracle.Array, oracle.Array]:
        start, transition, end = (p.detach().double().numpy() for p in (self.crf.start_C, self.crf.transition_CC, self.crf.end_C))
        return start, transition, end


def case(counts: list[int], tags: int, seed: int = 0) -> Case:
    generator = torch.Generator().manual_seed(seed)
    crf = randomise(CRF(tags), std=1.5, seed=generator)
    shape = (len(counts), max(1, *counts))
    emission_BWC = torch.randn(*shape, tags, generator=generator, dtype=torch.float64)
    tag_BW = torch.randint(tags, shape, generator=generator)
    for row, count in enumerate(counts):
        tag_BW[row, count:] = -1  # padding, which is no tag
        emission_BWC[row, count:] = 1e3
    return Case(crf.double(), emission_BWC, tag_BW, torch.tensor(counts))


cases = st.builds(case, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 2**16))


@settings(max_examples=40, deadline=None)
@given(cases)
def test_everything_equals_the_sum_or_the_best_of_all_sequences(drawn: Case) -> None:
    crf, emission_BWC, tag_BW, count_B = drawn
    with torch.no_grad():
        log_Z_B = crf.log_partition(emission_BWC, count_B)
        nll_B = crf.negative_log_likelihood(emission_BWC, tag_BW, count_B)
        p_BWC, best_BW = crf.marginals(emission_BWC, count_B), crf.decode(emission_BWC, count_B)
    for row, count in enumerate(count_B.tolist()):
        truth = drawn.truth(row)
        tags = tuple(tag_BW[row, :count].tolist())
        score = oracle.score(emission_BWC[row, :count].numpy(), *drawn.parameters(), tags)
        assert_equal(log_Z_B[row], torch.tensor(truth.log_partition, dtype=torch.float64))
        assert_equal(nll_B[row], torch.tensor(truth.log_partition - score, dtype=torch.float64))
        assert_equal(p_BWC[row, :count], torch.from_numpy(truth.marginal_WC))
        assert not p_BWC[row, count:].any()
        assert tuple(best_BW[row, :count].tolist()) == truth.best
        assert not best_BW[row, count:].any()


@settings(max_examples=20, deadline=None)
@given(cases)
def test_the_gradient_of_log_z_by_the_emissions_is_the_marginals(drawn: Case) -> None:
    emission_BWC = drawn.emission_BWC.requires_grad_()
    (gradient_BWC,) = torch.autograd.grad(drawn.crf.log_partition(emission_BWC, drawn.count_B).sum(), emission_BWC)
    assert_equal(gradient_BWC, drawn.crf.marginals(emission_BWC, drawn.count_B).detach())


def test_probabilities_of_all_sequences_sum_to_1() -> None:
    crf, emission_BWC, _, _ = case([4], 3)
    every_BW = torch.cartesian_prod(*[torch.arange(3)] * 4)
    count_B = torch.full((len(every_BW),), 4)
    nll_B = crf.negative_log_likelihood(emission_BWC.expand(len(every_BW), -1, -1), every_BW, count_B)
    assert_equal((-nll_B).exp().sum().detach(), torch.tensor(1.0, dtype=torch.float64))


def test_a_new_crf_is_a_softmax_for_each_word() -> None:
    _, emission_BWC, tag_BW, count_B = case([5, 2, 3], 4)
    crf = CRF(4).double()
    truth_BW = F.cross_entropy(emission_BWC.flatten(0, 1), tag_BW.flatten(), ignore_index=-1, reduction="none").view(3, 5)
    assert_equal(crf.negative_log_likelihood(emission_BWC, tag_BW, count_B).detach(), truth_BW.sum(1))
    real_BW = tag_BW >= 0
    assert_equal(crf.marginals(emission_BWC, count_B).detach()[real_BW], emission_BWC.softmax(-1)[real_BW])
    assert torch.equal(crf.decode(emission_BWC, count_B)[real_BW], emission_BWC.argmax(-1)[real_BW])


def test_a_row_without_words_has_probability_1_and_no_gradient() -> None:
    crf, emission_BWC, tag_BW, count_B = case([0, 3], 3)
    nll_B = crf.negative_log_likelihood(emission_BWC, tag_BW, count_B)
    assert nll_B[0] == 0
    for gradient in torch.autograd.grad(nll_B[0], list(crf.parameters())):
        assert not gradient.any()
    assert not crf.decode(emission_BWC, count_B)[0].any()


def test_a_forbidden_transition_is_never_decoded() -> None:
    crf, emission_BWC, _, count_B = case([5, 5, 4], 3, seed=3)
    with torch.no_grad():
        crf.transition_CC[0, 1] = crf.transition_CC[2, 2] = -torch.inf
    for row, count in zip(crf.decode(emission_BWC, count_B).tolist(), count_B.tolist(), strict=True):
        assert not {(0, 1), (2, 2)} & set(itertools.pairwise(row[:count]))
    assert crf.log_partition(emission_BWC, count_B).isfinite().all()


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_in_float32_a_long_sentence_loses_no_more_than_one_rounding_per_word(scale: float) -> None:
    exact = case([200, 150], 5)
    emission_BWC = (scale * exact.emission_BWC).float()
    single = CRF(5)
    single.load_state_dict(exact.crf.state_dict())
    truth_B = exact.crf.log_partition(emission_BWC.double(), exact.count_B).detach()
    allowed = 200 * torch.finfo(torch.float32).eps * truth_B.abs().max()
    assert (single.log_partition(emission_BWC, exact.count_B).detach() - truth_B).abs().max() <= allowed


def test_half_precision_emissions_are_summed_in_float32() -> None:
    crf, emission_BWC, tag_BW, count_B = case([30, 12], 4)
    half_BWC, single = emission_BWC.bfloat16(), CRF(4)
    single.load_state_dict(crf.state_dict())
    nll_B = single.negative_log_likelihood(half_BWC, tag_BW, count_B)
    plain_B = single.negative_log_likelihood(half_BWC.float(), tag_BW, count_B)
    assert nll_B.dtype == torch.float32
    exact_B = crf.negative_log_likelihood(half_BWC.double(), tag_BW, count_B)
    assert_as_accurate(nll_B, plain_B, exact_B.detach())


def test_viterbi_finds_the_best_of_a_long_sentence() -> None:
    """Against any change of one tag, where all sequences are too many."""
    crf, emission_BWC, _, count_B = case([40], 5)
    best_BW = crf.decode(emission_BWC, count_B)
    best = crf.score(emission_BWC, best_BW, count_B)
    for w, tag in np.ndindex(40, 5):
        other_BW = best_BW.clone()
        other_BW[0, w] = tag
        assert crf.score(emission_BWC, other_BW, count_B) <= best + 1e-9
