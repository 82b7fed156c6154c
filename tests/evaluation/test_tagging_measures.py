"""Spans against the real seqeval, words against scikit-learn's, and known small answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2, IOBES
from sklearn import metrics as sklearn

from firth.evaluation.tagging import TaggingMeasures, evaluate, marks_spans, measures, predict
from firth.models import RecurrentEncoderConfig
from firth.models.tagger import tagger
from firth.text.batches.sentences import Sentences
from firth.text.config import TokenizerConfig
from firth.text.data.tagged import encode_words
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.tokenizer import Tokenizer

BIO = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
BIOES = ("B-PER", "E-PER", "I-PER", "O", "S-PER")


def measured(log_p_NC: NDArray[np.float64], sentences: Sentences, labels: Sequence[str]) -> TaggingMeasures:
    """With the most probable tags."""
    return measures(log_p_NC, log_p_NC.argmax(1), sentences, labels)


def tagged(tags: list[list[str]], labels: tuple[str, ...]) -> Sentences:
    sentences = encode_words([["a"] * len(one) for one in tags], WORDS)
    sentences.label[:] = [labels.index(tag) for one in tags for tag in one]
    return sentences


def sure(tags: list[list[str]], labels: tuple[str, ...]) -> np.ndarray:
    """Log-probabilities that say just these tags."""
    said = [labels.index(tag) for one in tags for tag in one]
    return np.log(np.eye(len(labels))[said] * 0.9 + 0.1 / len(labels))


WORDS = Tokenizer.train(TokenizerConfig(kind="word"), pieces_of_text("a b c"), documents=1)


def drawn(seed: int, labels: tuple[str, ...]) -> list[list[str]]:
    """Any tags in any order, so that there are spans that begin with I."""
    generator = np.random.default_rng(seed)
    return [[labels[n] for n in generator.integers(len(labels), size=length)] for length in (5, 1, 9, 3, 12, 7) * 4]


@pytest.mark.parametrize("labels", [BIO, BIOES], ids=["bio", "bioes"])
@pytest.mark.parametrize("seed", range(3))
def test_spans_are_scored_by_seqeval(labels: tuple[str, ...], seed: int) -> None:
    true, said = drawn(seed, labels), drawn(seed + 100, labels)
    scores = measured(sure(said, labels), tagged(true, labels), labels)
    assert scores.f1 == pytest.approx(f1_score(true, said))
    assert scores.precision == pytest.approx(precision_score(true, said))
    assert scores.recall == pytest.approx(recall_score(true, said))
    assert scores.f1 is not None
    assert scores.f1 > 0
    assert scores.spans is not None
    assert [one.f1 for one in scores.spans] == pytest.approx(f1_score(true, said, average=None))
    assert scores.f1_strict is None, "the true tags keep to no scheme"


@pytest.mark.parametrize(
    ("true", "said", "labels", "scheme"),
    [
        ([["B-PER", "I-PER", "O", "B-LOC"]], [["I-PER", "I-PER", "O", "B-LOC"]], BIO, IOB2),
        ([["B-PER", "E-PER", "O", "S-PER"]], [["B-PER", "I-PER", "O", "S-PER"]], BIOES, IOBES),
    ],
)
def test_strictly_only_b_begins_a_span(
    true: list[list[str]], said: list[list[str]], labels: tuple[str, ...], scheme: type
) -> None:
    scores = measured(sure(said, labels), tagged(true, labels), labels)
    assert scores.f1 == pytest.approx(f1_score(true, said))
    assert scores.f1_strict == pytest.approx(f1_score(true, said, mode="strict", scheme=scheme))
    assert scores.f1_strict == pytest.approx(2 / 3)
    assert scores.f1 == 1.0, "conlleval lets I begin a span, and any tag end one"


def test_half_a_span_is_a_miss_though_its_word_is_correct() -> None:
    """One of two spans is predicted whole, the other only half: precision 1 of 2, recall 1 of 2; 3 of 4 words are correct."""
    true, said = [["B-PER", "I-PER", "O"], ["B-LOC"]], [["B-PER", "O", "O"], ["B-LOC"]]
    scores = measured(sure(said, BIO), tagged(true, BIO), BIO)
    assert (scores.precision, scores.recall, scores.f1, scores.f1_strict) == (0.5, 0.5, 0.5, 0.5)
    assert scores.accuracy == 0.75
    assert (scores.words, scores.sentences) == (4, 2)
    assert scores.spans is not None
    assert [(one.type, one.spans, one.f1) for one in scores.spans] == [("LOC", 1, 1.0), ("PER", 1, 0.0)]


def test_nothing_there_and_nothing_said_is_no_division_by_zero() -> None:
    scores = measured(sure([["O", "O"]], BIO), tagged([["O", "O"]], BIO), BIO)
    assert (scores.f1, scores.accuracy, scores.spans) == (0.0, 1.0, ())
    for true, said in (([["O"]], [["B-PER"]]), ([["B-PER"]], [["O"]])):
        assert measured(sure(said, BIO), tagged(true, BIO), BIO).f1 == 0.0


def test_parts_of_speech_are_no_spans() -> None:
    labels = ("ADJ", "NOUN", "O", "VERB")
    true, said = drawn(0, labels), drawn(1, labels)
    scores = measured(sure(said, labels), tagged(true, labels), labels)
    assert (scores.f1, scores.precision, scores.recall, scores.f1_strict, scores.spans) == (None,) * 5
    flat_true, flat_said = ([tag for one in given for tag in one] for given in (true, said))
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(flat_true, flat_said))
    expected = sklearn.precision_recall_fscore_support(flat_true, flat_said, labels=labels, zero_division=0)
    for name, values in zip(("precision", "recall", "f1"), expected[:3], strict=True):
        assert [getattr(one, name) for one in scores.tags] == pytest.approx(values)
    assert [(one.label, one.examples) for one in scores.tags] == list(zip(labels, expected[3], strict=True))


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        (BIO, True),
        (BIOES, True),
        (("O",), False),
        (("-LRB-", "O"), False),
        (("B-", "O"), False),
        (("B", "I", "O"), False),
        (("X-PER", "O"), False),
    ],
)
def test_tags_mark_spans_where_all_of_them_do(labels: tuple[str, ...], spans: bool) -> None:
    assert marks_spans(labels) == spans


def test_the_order_and_the_size_of_batches_change_nothing() -> None:
    model = tagger(RecurrentEncoderConfig(kind="lstm", width=4, characters=2, dropout=0.5), WORDS.vocab, 5)
    sentences = encode_words([["a"], ["b", "a", "c", "c"], ["c", "a"], ["a", "b", "b"]], WORDS)
    sentences.label[:] = np.arange(10) % 5
    whole, _ = predict(model, sentences, batch=4)
    assert model.training
    assert np.allclose(np.exp(whole).sum(1), 1.0)
    for batch in (1, 3):
        assert np.allclose(predict(model, sentences, batch=batch)[0], whole, atol=1e-6)
    heard: list[int] = []
    scores = evaluate(model, sentences, BIO, batch=3, progress=lambda what, done, total: heard.append(done))
    assert scores.loss == pytest.approx(-whole[range(10), sentences.label].mean(), rel=1e-5)
    assert heard == [3, 4]
