"""Tests on the same texts, against sacrebleu's and scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sklearn.metrics import f1_score

from firth.evaluation.by_text import (
    TextCounts,
    bits_by_block,
    f1_of,
    losses_by_block,
    macro_f1_of,
    mean_of,
    perplexity_from,
    sacrebleu_of,
)
from firth.evaluation.paired import bootstrap, exchanged, paired_difference

SEED = 12345  # sacrebleu's own
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "and", "then", "slept"]


def sentences(seed: int, count: int = 40) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, size=random.integers(4, 12))) for _ in range(count)]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(word if random.random() > share else "oops" for word in line.split()) for line in lines]


REFERENCES = sentences(0)
SYSTEMS = noisy(REFERENCES, 0.30, 1), noisy(REFERENCES, 0.36, 2)


@pytest.mark.parametrize("metric", [BLEU(), CHRF()], ids=["BLEU", "chrF"])
def test_both_tests_are_sacrebleus(metric: BLEU | CHRF, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    base, other = (sacrebleu_of(metric, lines, REFERENCES) for lines in SYSTEMS)
    named = [("base", SYSTEMS[0]), ("other", SYSTEMS[1])]
    results = {}
    for kind in ("ar", "bs"):
        _, told = PairedTest(named, {"metric": metric}, [REFERENCES], kind, n_samples=200)()
        results[kind] = next(value for name, value in told.items() if name != "System")
    assert base.value == pytest.approx(results["ar"][0].score, abs=1e-9)
    assert other.value == pytest.approx(results["ar"][1].score, abs=1e-9)
    assert exchanged([other], [base], 200, SEED) == results["ar"][1].p_value
    ours, bases = bootstrap([other], 200, SEED), bootstrap([base], 200, SEED)
    assert ours.mean() == pytest.approx(results["bs"][1].mean, abs=1e-6)
    # sacrebleu's p of the same samples: it centres |d|, not d
    away = np.abs(ours - bases)
    p = ((away - away.mean() > abs(base.value - other.value)).sum() + 1) / 201
    assert p == pytest.approx(results["bs"][1].p_value)


def test_p_is_that_of_all_exchanges() -> None:
    random = np.random.default_rng(3)
    one, other = random.normal(0.4, 1, 12), random.normal(0, 1, 12)
    exact = scipy.stats.permutation_test((one, other), lambda a, b: a.mean() - b.mean(), permutation_type="samples")
    assert exchanged([mean_of(one)], [mean_of(other)], 20_000) == pytest.approx(exact.pvalue, abs=0.01)
    assert 0.02 < exact.pvalue < 0.98


def test_ties_count_against_a_difference() -> None:
    """Of a metric with few values, many exchanges lead to the same difference: 1 of 2 texts against 0 of 2 is nothing."""
    one, other = mean_of([1, 0]), mean_of([0, 0])
    assert exchanged([one], [other], 1000) == 1.0
    assert paired_difference([one], [one], 200).p == 1.0


def test_the_interval_is_scipys() -> None:
    random = np.random.default_rng(4)
    one, other = random.normal(0.5, 1, 60), random.normal(0, 2, 60)
    tested = paired_difference([mean_of(one)], [mean_of(other)], 20_000)
    expected = scipy.stats.bootstrap(
        (one - other,), np.mean, n_resamples=20_000, method="percentile", random_state=1
    ).confidence_interval
    assert tested.difference == pytest.approx((one - other).mean())
    assert (tested.low, tested.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_a_pair_is_narrower_than_two_samples() -> None:
    """Two models that find the same texts difficult differ by more than their separate intervals tell."""
    hard = np.random.default_rng(5).normal(0, 5, 100)
    tested = paired_difference([mean_of(hard + 0.5)], [mean_of(hard)], 500)
    assert tested.high - tested.low < 1e-9
    assert tested.p == pytest.approx(1 / 501)


def test_seeds_are_averaged_and_exchanged_together() -> None:
    random = np.random.default_rng(6)
    values = random.normal(size=(3, 50))
    both, mean = [mean_of(values[0]), mean_of(values[1])], mean_of(values[:2].mean(0))
    base = mean_of(values[2])
    assert bootstrap(both, 100) == pytest.approx(bootstrap([mean], 100))
    assert exchanged(both, [base, base], 500) == exchanged([mean], [base], 500)
    assert paired_difference(both, [base], 100).p is None, "nothing to exchange the second seed with"


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    of = mean_of(np.random.default_rng(7).normal(size=30))
    whole = bootstrap([of], 50)
    monkeypatch.setattr("firth.evaluation.paired._AT_ONCE", 70)  # two rows at a time
    assert bootstrap([of], 50) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_macro_f1_is_sklearns_for_any_selection(classes: int) -> None:
    random = np.random.default_rng(classes)
    true, predicted = random.integers(classes, size=(2, 80))
    counts = macro_f1_of(true, predicted, classes)
    for rows in (np.arange(80), np.arange(7)):  # seven texts may lack a class
        expected = f1_score(true[rows], predicted[rows], labels=range(classes), average="macro", zero_division=0)
        assert value_of(counts, rows) == pytest.approx(expected)


def test_f1_and_perplexity_follow_from_sums() -> None:
    assert f1_of([1, 0], [2, 0], [1, 0]).value == pytest.approx(2 / 3)
    assert value_of(f1_of([1, 0], [2, 0], [1, 0]), np.array([1])) == 0.0, "no span: 0, as seqeval"
    loss = mean_of([2.0, 4.0], [1, 3])
    assert perplexity_from(loss).value == pytest.approx(math.exp(1.5))


def value_of(counts: TextCounts, rows: NDArray[np.int64]) -> float:
    return float(counts.of_sums(counts.count_NK[rows].sum(0)))


def test_blocks_of_characters_hold_the_tokens_that_begin_in_them() -> None:
    nats, characters = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300, 300, 424, 10])  # beginning at 0, 300, 600 and 1024
    counts = bits_by_block(nats, characters)
    assert counts.count_NK == pytest.approx(np.array([[3 / math.log(2), 600], [4 / math.log(2), 424], [8 / math.log(2), 10]]))
    loss = losses_by_block(np.arange(200.0), np.arange(200))["loss"]
    assert loss.count_NK.tolist() == [[sum(range(128)), 128], [sum(range(128, 200)), 72]]
