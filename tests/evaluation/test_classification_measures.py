"""Accuracy, F1 and confusion against scikit-learn's, and the pass over the examples against one text at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn

from firth.evaluation.classification import evaluate, log_probabilities, measures
from firth.models import AverageConfig, Classifier, classifier
from firth.text.batches.examples import Examples
from firth.text.batches.padding import padded


def drawn(seed: int, count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    logits_NC = generator.normal(size=(count, classes))
    log_p_NC = logits_NC - np.log(np.exp(logits_NC).sum(1, keepdims=True))
    return log_p_NC, generator.integers(0, max(1, classes - seed % 2), count)  # odd: the last class never occurs


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns where it divides by nothing
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("classes", [2, 5])
def test_they_equal_those_of_scikit_learn(seed: int, classes: int) -> None:
    log_p_NC, label_N = drawn(seed, 40, classes)
    said_N, every = log_p_NC.argmax(1), list(range(classes))
    scores = measures(log_p_NC, label_N, [str(n) for n in every])
    precision, recall, f1, count = sklearn.precision_recall_fscore_support(label_N, said_N, labels=every, zero_division=0)
    assert np.allclose([one.precision for one in scores.classes], precision)
    assert np.allclose([one.recall for one in scores.classes], recall)
    assert np.allclose([one.f1 for one in scores.classes], f1)
    assert [one.examples for one in scores.classes] == count.tolist()
    assert np.array_equal(scores.confusion, sklearn.confusion_matrix(label_N, said_N, labels=every))
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(label_N, said_N))
    assert scores.macro_f1 == pytest.approx(sklearn.f1_score(label_N, said_N, labels=every, average="macro", zero_division=0))
    assert scores.loss == pytest.approx(sklearn.log_loss(label_N, np.exp(log_p_NC), labels=every))
    assert scores.examples == 40
    squared = measures(log_p_NC, label_N, [str(n) for n in every], loss="squared-error").loss
    assert squared == pytest.approx(classes * sklearn.mean_squared_error(np.eye(classes)[label_N], np.exp(log_p_NC)))
    if classes == 2 and set(label_N) == {0, 1}:  # scikit-learn's Brier score of two classes counts one of them
        assert squared == pytest.approx(2 * sklearn.brier_score_loss(label_N, np.exp(log_p_NC[:, 1])))


def test_a_class_that_is_neither_there_nor_said_has_an_f1_of_zero() -> None:
    scores = measures(np.log([[0.9, 0.05, 0.05]]), np.array([0]), ["a", "b", "c"])
    assert [one.f1 for one in scores.classes] == [1.0, 0.0, 0.0]
    assert scores.confusion == ((1, 0, 0), (0, 0, 0), (0, 0, 0))


@pytest.fixture
def model() -> Classifier:
    made = classifier(AverageConfig(kind="average", width=4, dropout=0.5), 9, 3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(generator=generator)
    return made


def test_batches_change_nothing_and_dropout_is_off(model: Classifier) -> None:
    texts = [np.array(ids) for ids in ([1, 2], [3], [4, 5, 6, 7], [8, 8], [1])]
    examples = Examples(np.concatenate(texts), np.cumsum([0, *map(len, texts)]), np.array([0, 1, 2, 0, 1]))
    told: list[tuple[int, int]] = []
    scores = evaluate(model, examples, "abc", batch=2, progress=lambda what, done, total: told.append((done, total)))
    one_by_one = np.concatenate([log_probabilities(model, *padded([ids])) for ids in texts])
    expected = measures(one_by_one, examples.label_N, "abc")
    assert scores.loss == pytest.approx(expected.loss, rel=1e-6)
    assert scores.confusion == expected.confusion
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert model.training  # as it was


def test_probabilities_sum_to_one(model: Classifier) -> None:
    log_p_BC = log_probabilities(model, *padded([np.array([1, 2, 3]), np.array([4])]))
    assert np.allclose(np.exp(log_p_BC).sum(1), 1.0, atol=1e-14)
