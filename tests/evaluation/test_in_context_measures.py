"""Performance by number of examples, and the best possible: known answers, and loops as oracles."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch

from firth.evaluation.in_context import (
    Errors,
    answers,
    answers_by_examples,
    best_accuracy,
    errors,
    errors_by_examples,
    least_squares,
)
from firth.models import LanguageModel, RecurrentConfig, TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.models.point_regressor import point_regressor
from firth.text.datasets.in_context_tasks import LinearFunctions, PointPrompts, SwapPrompts, Swaps

SWAPS = Swaps(letters=3, word_length=3, examples=3)


def swaps(count: int = 7) -> SwapPrompts:
    return SWAPS.draw("test", count, np.random.default_rng(5))


def points(count: int = 7, noise: float = 0.0) -> PointPrompts:
    return LinearFunctions(dimensions=3, noise=noise, examples=6).draw("test", count, np.random.default_rng(5))


def model() -> LanguageModel:
    """It writes letters alone, so that it is right now and then."""
    config = TransformerConfig(kind="transformer", width=8, depth=1, heads=2, context=64, tied=False, bias=True)
    made = language_model(config, len(SWAPS.alphabet))
    initialise(made, torch.Generator().manual_seed(3))
    with torch.no_grad():
        made.output_layer()[1][:2] -= 20  # type: ignore[index]
    return made.eval()


def test_a_word_is_right_where_greedy_writing_gives_it_and_nats_are_those_of_its_characters() -> None:
    prompts, network = swaps(30), model()
    scores = answers(network, prompts, batch=5)
    token_BT = torch.from_numpy(prompts.batch().token_BT)
    for row, k in itertools.product(range(30), range(4)):
        start = 8 * k + 4  # behind the arrow
        written = token_BT[row : row + 1, :start]
        nats = []
        for place in range(3):
            with torch.no_grad():
                log_p_V = network(written)[0][0, -1].log_softmax(-1)
                right = network(token_BT[row : row + 1, : start + place])[0][0, -1].log_softmax(-1)
            written = torch.cat((written, log_p_V.argmax().view(1, 1)), dim=1)
            nats.append(-float(right[prompts.answer_BEL[row, k, place] + 2]))
        said = (written[0, start:] - 2).tolist()
        assert scores.right_BE[row, k] == (said == prompts.answer_BEL[row, k].tolist())
        assert scores.nats_BE[row, k] == pytest.approx(sum(nats) / 3, rel=1e-4)
    assert scores.right_BE.any(), "a test that sees none right would see nothing"
    assert not scores.right_BE.all()
    assert scores.accuracy == scores.right_BE[:, 3].mean()
    assert scores.loss == pytest.approx(scores.nats_BE.mean())


def test_it_does_not_depend_on_how_many_are_read_at_once() -> None:
    one, other = (answers(model(), swaps(), batch=batch) for batch in (2, 100))
    assert np.array_equal(one.right_BE, other.right_BE)
    assert np.allclose(one.nats_BE, other.nats_BE, atol=1e-5)


def test_the_best_there_is_counts_all_permutations_that_agree() -> None:
    prompts = Swaps(letters=4, word_length=2, examples=3).draw("train", 30, np.random.default_rng(2))
    expected = [Fraction(0)] * 4
    for row in range(30):
        words, said = prompts.word_BEL[row].tolist(), prompts.answer_BEL[row].tolist()
        for k in range(4):
            agreeing = [
                becomes
                for becomes in itertools.permutations(range(4))
                if all([becomes[letter] for letter in word] == answer for word, answer in zip(words[:k], said[:k], strict=True))
            ]
            given = Counter(tuple(becomes[letter] for letter in words[k]) for becomes in agreeing)
            expected[k] += Fraction(max(given.values()), 30 * len(agreeing))
    assert best_accuracy(prompts).tolist() == pytest.approx([float(share) for share in expected])


def test_letters_that_were_seen_are_known_and_the_last_one_follows() -> None:
    seen = SwapPrompts(np.array([[[0, 1, 1], [0, 1, 0], [2, 2, 2]]]), np.array([[2, 0, 1]]))
    assert best_accuracy(seen).tolist() == [pytest.approx(1 / 6), 1.0, 1.0]
    unseen = SwapPrompts(np.array([[[0, 0], [0, 1], [2, 1]]]), np.array([[3, 2, 0, 1]]))
    assert best_accuracy(unseen).tolist() == pytest.approx([1 / 4, 1 / 3, 1 / 2])


def test_the_rows_tell_of_each_number_of_examples() -> None:
    prompts = swaps()
    scores = answers(model(), prompts, batch=100)
    rows = answers_by_examples(scores, prompts)
    assert [row.examples for row in rows] == [0, 1, 2, 3]
    assert rows[-1].accuracy == scores.accuracy
    assert [row.best for row in rows] == pytest.approx(best_accuracy(prompts).tolist())
    assert np.mean([row.loss for row in rows]) == pytest.approx(scores.loss)
    assert [row.accuracy for row in rows] == scores.right_BE.mean(0).tolist()


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_least_squares_is_that_of_the_points_before(noise: float) -> None:
    prompts = points(noise=noise)
    said_BE = least_squares(prompts)
    assert said_BE[:, 0].tolist() == [0.0] * 7
    for row, k in itertools.product(range(7), range(1, 7)):
        x_kD, y_k = prompts.x_BED[row, :k].astype(np.float64), prompts.y_BE[row, :k].astype(np.float64)
        w_D, *_ = np.linalg.lstsq(x_kD, y_k, rcond=None)
        assert said_BE[row, k] == pytest.approx(float(prompts.x_BED[row, k] @ w_D), abs=1e-6)


def test_without_noise_least_squares_knows_all_as_soon_as_there_are_as_many_points_as_dimensions() -> None:
    prompts = points(4000)
    rows = errors_by_examples(Errors(np.ones(prompts.y_BE.shape)), prompts)
    assert [row.examples for row in rows] == list(range(7))
    # A point shows one direction of D, so the share of w that is still open is 1 − k/D.
    assert [row.least_squares for row in rows] == pytest.approx([1, 2 / 3, 1 / 3, 0, 0, 0, 0], abs=0.06)
    assert [row.zero for row in rows] == pytest.approx([1] * 7, abs=0.1)
    assert [row.squared_error for row in rows] == [1.0] * 7


def test_errors_are_those_of_the_model() -> None:
    prompts = points()
    network = point_regressor(RecurrentConfig(kind="gru", width=5), 3)
    initialise(network, torch.Generator().manual_seed(0))
    scores = errors(network, prompts, batch=3)
    with torch.no_grad():
        said_BE = network(torch.from_numpy(prompts.x_BED), torch.from_numpy(prompts.y_BE)).numpy()
    assert np.allclose(scores.error_BE, (said_BE - prompts.y_BE) ** 2 / 3, rtol=1e-4)
    assert scores.squared_error == pytest.approx(scores.error_BE[:, -1].mean())
    assert scores.loss == pytest.approx(scores.error_BE.mean())


def test_dropout_is_off_during_evaluation_and_on_again_afterwards() -> None:
    config = TransformerConfig(kind="transformer", width=8, depth=1, heads=2, context=64, tied=False, bias=True, dropout=0.5)
    network = language_model(config, len(SWAPS.alphabet))
    initialise(network, torch.Generator().manual_seed(3))
    expected = answers(network.eval(), swaps(), batch=5).loss
    assert answers(network.train(), swaps(), batch=5).loss == expected
    assert network.training
