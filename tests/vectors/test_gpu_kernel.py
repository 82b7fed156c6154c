"""word2vec in Triton against a loop in float64 that makes the same draws: on a GPU, or on a CPU in Triton's interpreter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from interpreter import INTERPRETED

from firth.errors import ConfigError
from firth.vectors.config import VectorsConfig
from firth.vectors.huffman import huffman
from firth.vectors.sampling import alias_table, busy_rows, negative_probability

pytest.importorskip("triton", reason="the kernel is written in Triton")
from firth.vectors import gpu
from firth.vectors.gpu import GPUKernel

V, D = 23, 20
COUNT_V = np.sort(np.random.default_rng(0).integers(5, 400, V))[::-1].astype(np.int64).copy()
ids = np.random.default_rng(1).integers(0, V, 40).astype(np.uint32)
ENDS = np.array([17, 18, 40])  # a sentence of one word among them

SENTENCE = np.searchsorted(ENDS, np.arange(len(ids)), side="right").astype(np.int32)

ON_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if ON_GPU else "cpu"
where_triton_runs = [
    pytest.mark.long,
    pytest.mark.gpu,
    *([] if ON_GPU else [pytest.mark.usefixtures("triton_interpreter")]),
    pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="needs a CUDA device, or Triton's interpreter: TRITON_INTERPRET=1"),
]
Matrix = npt.NDArray[np.float64]


def config_of(**settings: Any) -> VectorsConfig:
    return VectorsConfig(**({"dim": D, "window": 3, "negatives": 4, "sample": 0.0} | settings))


def matrices(config: VectorsConfig) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    generator = np.random.default_rng(2)
    rows = V if config.loss == "ns" else V - 1
    return tuple(generator.normal(0, 0.4, (n, D)).astype(np.float32) for n in (V, rows))  # type: ignore[return-value]


def moved(numbers: npt.NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(numbers.astype(np.int32)).to(DEVICE)


class Draws:
    """The kernel's draws, in Python's own integers."""

    def __init__(self, seed: int) -> None:
        self.seed = self.mixed(seed)

    @staticmethod
    def mixed(x: int) -> int:
        x &= 0xFFFFFFFF
        x = ((x ^ x >> 16) * 0x7FEB352D) & 0xFFFFFFFF
        x = ((x ^ x >> 15) * 0x846CA68B) & 0xFFFFFFFF
        return x ^ x >> 16

    def bits(self, position: int, number: int) -> int:
        return self.mixed(self.mixed(self.seed + position) + number * 0x9E3779B9)

    def below(self, position: int, number: int, limit: int) -> int:
        return self.bits(position, number) * limit >> 32


def targets(config: VectorsConfig, draws: Draws, position: int, word: int, pair: int = 0) -> list[tuple[int, bool]]:
    """Rows of the output matrix, and whether each is to be likely."""
    if config.loss == "hs":
        nodes, bits = huffman(COUNT_V).of(word)
        return [(int(node), bit == 0) for node, bit in zip(nodes, bits, strict=True)]
    own_V, other_V = alias_table(negative_probability(COUNT_V))
    rows = [(word, True)]
    for n in range(16 * pair + 1, 16 * pair + config.negatives + 1):  # Triton draws 16 at a time
        column = draws.below(position, 2 * n + 1, V)
        drawn = column if draws.bits(position, 2 * n + 2) <= int(own_V[column]) else int(other_V[column])
        if drawn != word or config.faithful:
            rows.append((drawn, False))
    return rows


def by_hand(
    config: VectorsConfig, v: Matrix, u: Matrix, rate: tuple[float, float], seed: int, ease: tuple[Matrix, Matrix] | None = None
) -> tuple[float, int]:
    """Walk along the text and take, for every centre, the step of its objective; all its pairs from the same weights, or if
    faithful, one step per pair."""
    ease_v, ease_u = ease or (np.ones(len(v)), np.ones(len(u)))
    draws, sentence = Draws(seed), np.searchsorted(ENDS, np.arange(len(ids)), side="right")
    total, terms = 0.0, 0
    for position, centre in enumerate(ids.tolist()):
        eta = rate[0] + (rate[1] - rate[0]) * position / len(ids)
        reach = 1 + draws.below(position, 0, config.window)
        around = [q for q in range(position - reach, position + reach + 1) if 0 <= q < len(ids) and q != position]
        around = [q for q in around if sentence[q] == sentence[position]]
        context = [int(ids[q]) for q in around]
        if not context:
            continue
        # Each prediction of a step: the words whose mean is the input, and the targets
        if config.model == "cbow":
            steps = [[(context, targets(config, draws, position, centre))]]
        elif config.faithful:
            slots = [q - position + config.window - (q > position) for q in around]
            steps = [[([centre], targets(config, draws, position, c, j))] for c, j in zip(context, slots, strict=True)]
        else:
            rows = targets(config, draws, position, centre)
            steps = [[([c], rows) for c in context]]
        for step in steps:
            before_v, before_u = v.copy(), u.copy()
            terms += len(step)
            for group, rows in step:
                x = before_v[group].mean(0)
                for row, likely in rows:
                    s = float(before_u[row] @ x)
                    total += math.log1p(math.exp(-s if likely else s))
                    g = eta * (likely - 1 / (1 + math.exp(-s)))
                    u[row] += ease_u[row] * g * x
                    share = len(group) if config.faithful else 1  # word2vec does not divide by the number of words in the mean
                    np.add.at(v, group, ease_v[group, None] * g * before_u[row] / share)
    return total, terms


@pytest.mark.parametrize("loss", ["ns", "hs"])
@pytest.mark.parametrize("model", ["skipgram", "cbow"])
class TestAgainstALoop:
    pytestmark = where_triton_runs

    @pytest.mark.parametrize("faithful", [False, True])
    def test_a_walk_along_the_text_is_the_loop(self, model: Any, loss: Any, faithful: bool) -> None:
        config = config_of(model=model, loss=loss, faithful=faithful)
        input_Vd, output_Vd = matrices(config)
        v, u = input_Vd.astype(np.float64), output_Vd.astype(np.float64)
        total, terms = by_hand(config, v, u, (0.1, 0.02), seed=7)
        kernel = GPUKernel(config, COUNT_V, input_Vd, output_Vd, DEVICE)
        loss_sum, counted = kernel.train(moved(ids), moved(SENTENCE), 0.1, 0.02, seed=7, programs=1)
        kernel.fetch()
        assert counted == terms
        assert loss_sum == pytest.approx(total, rel=1e-5)
        np.testing.assert_allclose(input_Vd, v, rtol=0, atol=2e-6)
        np.testing.assert_allclose(output_Vd, u, rtol=0, atol=2e-6)

    def test_a_row_that_many_change_takes_shorter_steps(self, model: Any, loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu, "TOGETHER", 0.2)  # as if a fifth of a program were already enough to be many
        config = config_of(model=model, loss=loss)
        input_Vd, output_Vd = matrices(config)
        v, u = input_Vd.astype(np.float64), output_Vd.astype(np.float64)
        ease = tuple(
            np.minimum(0.2 / busy, 1) for busy in busy_rows(config, COUNT_V, huffman(COUNT_V) if config.loss == "hs" else None)
        )
        assert all(len(set(table)) > 2 and table.max() == 1 for table in ease[loss == "hs" :])
        by_hand(config, v, u, (0.1, 0.02), 7, ease)  # type: ignore[arg-type]
        kernel = GPUKernel(config, COUNT_V, input_Vd, output_Vd, DEVICE)
        kernel.train(moved(ids), moved(SENTENCE), 0.1, 0.02, seed=7, programs=1)
        kernel.fetch()
        np.testing.assert_allclose(input_Vd, v, rtol=0, atol=2e-6)
        np.testing.assert_allclose(output_Vd, u, rtol=0, atol=2e-6)

    def test_programs_of_any_number_see_the_same_pairs(self, model: Any, loss: Any) -> None:
        config = config_of(model=model, loss=loss)
        losses = []
        for programs in (5, 1):
            kernel = GPUKernel(config, COUNT_V, *matrices(config), DEVICE)
            losses.append(kernel.train(moved(ids), moved(np.zeros(len(ids))), 0.0, 0.0, seed=3, programs=programs))
        assert losses[0][1] == losses[1][1]
        assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-6)


class TestCalls:
    pytestmark = where_triton_runs

    def test_a_call_trains_on_the_sentences_it_was_given(self) -> None:
        config = config_of()
        one, other = (GPUKernel(config, COUNT_V, *matrices(config), DEVICE) for _ in range(2))
        assert one(ids, ENDS, 1, 3, 0.05, 0.05, 5)[2] == 40 - 17
        other(ids[17:].copy(), ENDS[1:] - 17, 0, 2, 0.05, 0.05, 5)
        assert torch.equal(one.input_Vd, other.input_Vd)

    def test_subsampling_keeps_words_as_often_as_its_formula_says(self) -> None:
        config = config_of(sample=1e-2)
        kernel = GPUKernel(config, COUNT_V, *matrices(config), DEVICE)
        words = moved(np.zeros(20_000))
        share = kernel._kept(words, 1).float().mean().item()
        f = COUNT_V[0] / COUNT_V.sum()
        expected = math.sqrt(1e-2 / f) + 1e-2 / f
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / 20_000)


def test_the_exact_softmax_is_refused() -> None:
    with pytest.raises(ConfigError, match='Choose "ns" or "hs"'):
        GPUKernel(config_of(loss="softmax"), COUNT_V, *matrices(config_of()), "cpu")
