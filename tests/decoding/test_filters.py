"""Typical sampling, XTC, mirostat and DRY, against `transformers`, llama.cpp and loops over their definitions."""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import Chain, penalised, probabilities
from firth.decoding.sampling.dry import repetitions
from firth.decoding.sampling.mirostat import Mirostat
from firth.decoding.sampling.rows import TextSoFar

V = 40
CPU = torch.device("cpu")


def logits(seed: int = 3, rows: int = 6) -> Tensor:
    return 2 * torch.randn(rows, V, generator=torch.Generator().manual_seed(seed))


def llama_cpp_p(row: Tensor, make: Any) -> dict[int, float]:
    """The probabilities of the tokens that a sampler of llama.cpp leaves."""
    llama_cpp: Any = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python, which is compiled when it is installed")
    data = (llama_cpp.llama_token_data * V)(*((n, float(row[n]), 0.0) for n in range(V)))
    array = llama_cpp.llama_token_data_array(data, V, -1, False)
    sampler = make(llama_cpp)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    left = [(array.data[n].id, array.data[n].logit) for n in range(array.size)]
    llama_cpp.llama_sampler_free(sampler)
    total = math.fsum(math.exp(x) for _, x in left if math.isfinite(x))
    return {id: math.exp(x) / total for id, x in left if math.isfinite(x)}


def assert_same(p_V: Tensor, expected: dict[int, float]) -> None:
    assert {n: p for n, p in enumerate(p_V.tolist()) if p} == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("typical_p", [0.05, 0.3, 0.7, 0.95])
def test_typical_sampling_equals_hugging_face(typical_p: float) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    process = pytest.importorskip("transformers.generation.logits_process", reason="make test installs it")
    p_BV = probabilities(logits(), DecodingConfig(typical_p=typical_p))
    theirs_BV = torch.softmax(process.TypicalLogitsWarper(typical_p)(None, logits()), -1)
    torch.testing.assert_close(p_BV, theirs_BV)
    assert 1 <= int((p_BV > 0).sum(1).min()) < V


@pytest.mark.parametrize("typical_p", [0.3, 0.7])
def test_typical_sampling_equals_llama_cpp(typical_p: float) -> None:
    for p_V, row in zip(probabilities(logits(), DecodingConfig(typical_p=typical_p)), logits(), strict=True):
        assert_same(p_V, llama_cpp_p(row, lambda one: one.llama_sampler_init_typical(typical_p, 1)))


@pytest.mark.parametrize("threshold", [0.02, 0.1, 0.3, 0.5])
def test_xtc_excludes_what_llama_cpp_excludes(threshold: float) -> None:
    config = DecodingConfig(xtc_probability=1.0, xtc_threshold=threshold)
    for p_V, row in zip(probabilities(logits(), config), logits(), strict=True):
        assert_same(p_V, llama_cpp_p(row, lambda one: one.llama_sampler_init_xtc(1.0, threshold, 1, 0)))


@pytest.mark.parametrize("threshold", [0.02, 0.1, 0.15])
def test_xtc_is_a_mixture_of_both_distributions(threshold: float) -> None:
    """By its definition: the tokens above the threshold, but for the least probable one, are excluded with probability π."""
    plain_BV = torch.softmax(logits().double(), -1)
    mixed_BV = probabilities(logits(), DecodingConfig(xtc_probability=0.3, xtc_threshold=threshold))
    several = 0
    for mixed, plain in zip(mixed_BV.tolist(), plain_BV.tolist(), strict=True):
        top = sorted((n for n in range(V) if plain[n] >= threshold), key=lambda n: plain[n])[1:]
        several += bool(top)
        rest = 1 - math.fsum(plain[n] for n in top)
        expected = [0.7 * p + (0.0 if n in top else 0.3 * p / rest) for n, p in enumerate(plain)]
        assert mixed == pytest.approx(expected, abs=1e-6)
    assert several


def test_mirostat_cuts_and_moves_its_bound_as_llama_cpp() -> None:
    llama_cpp: Any = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python, which is compiled when it is installed")
    tau, eta = 2.5, 0.4
    text = TextSoFar(DecodingConfig(mirostat=tau, mirostat_rate=eta))
    sampler = llama_cpp.llama_sampler_init_mirostat_v2(5, tau, eta)
    sizes = set()
    for step in range(30):
        row = logits(step, 1)
        data = (llama_cpp.llama_token_data * V)(*((n, float(row[0, n]), 0.0) for n in range(V)))
        array = llama_cpp.llama_token_data_array(data, V, -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        theirs = {array.data[n].id: array.data[n].p for n in range(array.size)}
        token = array.data[array.selected].id  # what it has drawn: its bound moves by that
        p_V = Chain([text], CPU).probabilities(row)[0]
        assert_same(p_V, theirs)
        text.add(token, float(p_V[token]))
        sizes.add(len(theirs))
    llama_cpp.llama_sampler_free(sampler)
    assert len(sizes) > 3


def test_mirostat_keeps_the_surprisal_of_a_text_near_its_target() -> None:
    """Whatever the distributions are: here random logits, which alone would give a higher surprisal."""
    generator, target, bits = torch.Generator().manual_seed(0), 2.0, []
    text = TextSoFar(DecodingConfig(mirostat=target, mirostat_rate=0.2))
    chain = Chain([text], CPU)
    for _ in range(400):
        row = torch.randn(1, V, generator=generator) * 1.5
        token_1, share_1 = chain.choose(row, torch.rand(1, generator=generator, dtype=torch.float64))
        assert share_1 is not None
        bits.append(-math.log2(float(share_1)))
        text.add(int(token_1), float(share_1))
    assert sum(bits[100:]) / 300 == pytest.approx(target, abs=0.1)
    assert text.notes[Mirostat].mu < 2 * target + 1


def slow_repetitions(tokens: list[int]) -> dict[int, int]:
    """By comparing all pairs of ends."""
    longest: dict[int, int] = {}
    for at in range(1, len(tokens)):
        for length in range(1, at + 1):
            if tokens[at - length : at] == tokens[len(tokens) - length :]:
                longest[tokens[at]] = max(longest.get(tokens[at], 0), length)
    return longest


@pytest.mark.parametrize("seed", range(5))
def test_dry_penalises_every_continuation_of_a_repetition_by_its_length(seed: int) -> None:
    tokens = torch.randint(3, (30,), generator=torch.Generator().manual_seed(seed)).tolist()
    lengths = slow_repetitions(tokens)
    assert repetitions(tokens) == lengths
    config = DecodingConfig(dry_multiplier=0.8, dry_base=1.5, dry_allowed_length=2)
    penalised_V = penalised(logits(rows=1), config, torch.tensor([tokens]))[0]
    expected = logits(rows=1)[0].tolist()
    for token, length in lengths.items():
        expected[token] -= 0.8 * 1.5 ** (length - 2) if length >= 2 else 0.0
    assert penalised_V.tolist() == pytest.approx(expected, rel=1e-6)


def test_a_text_without_repetition_is_not_penalised_by_dry() -> None:
    row, config = logits(rows=1), DecodingConfig(dry_multiplier=2.0)
    assert torch.equal(penalised(row, config, torch.tensor([[1, 2, 3, 4]])), row)
    assert torch.equal(penalised(row, config, torch.zeros(1, 0, dtype=torch.long)), row)


@pytest.mark.parametrize(
    "settings", [{"typical_p": 0.5}, {"xtc_probability": 0.5}, {"mirostat": 2.0}, {"top_k": 3}, {"min_p": 0.2}], ids=str
)
def test_filters_of_sampling_leave_greedy_decoding_alone(settings: dict[str, Any]) -> None:
    text = TextSoFar(DecodingConfig(temperature=0.0, **settings))
    assert not text.notes
    token_B, _ = Chain([text] * 6, CPU).choose(logits(), torch.zeros(6))
    assert torch.equal(token_B, logits().argmax(-1))
