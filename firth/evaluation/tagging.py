"""Accuracy of tags per word; if the tags mark spans, also precision, recall and F1 of whole spans, by seqeval.

Letters: N words, B sentences of a batch, W words, C tags. Tags mark spans if each is O or a prefix (B, I, E, S), a hyphen
and the type of the span. seqeval counts spans in two modes:

    as conlleval, which papers report: I-PER after O also starts a span
    strict: only spans that the scheme (IOB2, IOBES) allows count; reported only if the true tags follow a scheme
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.evaluation.by_text import TextCounts, f1_of, mean_of
from firth.evaluation.classification import ClassMeasures
from firth.evaluation.classification import measures as measures_of_words
from firth.evaluation.inference import inference, with_progress
from firth.models.tagger import Tagger
from firth.progress import Progress, silent
from firth.text.batches.sentences import Sentences
from firth.training.distributed import all_merged
from firth.training.loop import precision

_PREFIXES = frozenset("BIES")


@dataclass(frozen=True)
class SpanMeasures:
    type: str
    spans: int  # true spans of this type
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class TaggingMeasures:
    loss: float  # mean nats per word
    accuracy: float  # fraction of the words whose most probable tag is correct
    f1: float | None  # of spans; None if the tags mark none
    precision: float | None
    recall: float | None
    f1_strict: float | None  # None also if the true tags follow no scheme
    words: int
    sentences: int
    tags: tuple[ClassMeasures, ...]
    spans: tuple[SpanMeasures, ...] | None
    own: dict[str, float]  # metrics of one's own


def evaluate(
    model: Tagger, sentences: Sentences, labels: Sequence[str], *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> TaggingMeasures:
    return measures(*predict(model, sentences, batch=batch, dtype=dtype, progress=progress), sentences, labels)


def predict(
    model: Tagger, sentences: Sentences, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """log p_NC(tag | sentence), normalised in float64, and the predicted tags, for all words in order."""
    results: dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
    parts = sentences.sweep(batch, spelled=model.spelling is not None)
    with inference(model) as device:
        for row_B, part in with_progress(parts, lambda rows: len(rows[0]), len(sentences), progress):
            inputs = (part.token_BT, part.length_B, part.first_BW, part.symbol_BWK)
            with precision(device, dtype):
                logits_BWC = model(*(torch.from_numpy(array).to(device) for array in inputs))
            words_B = torch.from_numpy(np.diff(sentences.word_starts)[row_B]).to(device)
            wide_BWC = logits_BWC.float() if device.type == "mps" else logits_BWC.double()  # MPS has no float64
            log_p_BWC = model.readout.log_probabilities(wide_BWC, words_B).cpu().numpy()
            best_BW = model.readout.best(wide_BWC, words_B).cpu().numpy()
            for row, log_p_WC, best_W in zip(row_B.tolist(), log_p_BWC, best_BW, strict=True):
                first, last = sentences.word_starts[row : row + 2]
                results[row] = log_p_WC[: last - first], best_W[: last - first]
    results = all_merged(results)
    log_p, best = zip(*(results[row] for row in range(len(sentences))), strict=True)
    return np.concatenate(log_p), np.concatenate(best)


def measures(
    log_p_NC: NDArray[np.float64], best_N: NDArray[np.int64], sentences: Sentences, labels: Sequence[str]
) -> TaggingMeasures:
    """The metrics of predicted log-probabilities and tags against the true tags."""
    by_word = measures_of_words(log_p_NC, sentences.label, labels, best_N)
    micro: SpanMeasures | None = None
    spans: tuple[SpanMeasures, ...] | None = None
    strict = None
    if marks_spans(labels):
        true, predicted = (_by_sentence(number_N, sentences, labels) for number_N in (sentences.label, best_N))
        *by_type, micro = _spans(true, predicted)
        spans, strict = tuple(by_type), _strict_f1(true, predicted, labels)
    return TaggingMeasures(
        loss=by_word.loss,
        accuracy=by_word.accuracy,
        f1=micro.f1 if micro else None,
        precision=micro.precision if micro else None,
        recall=micro.recall if micro else None,
        f1_strict=strict,
        words=sentences.words,
        sentences=len(sentences),
        tags=by_word.classes,
        spans=spans,
        own=by_word.own,
    )


def counts_by_sentence(
    log_p_NC: NDArray[np.float64], best_N: NDArray[np.int64], sentences: Sentences, labels: Sequence[str]
) -> dict[str, TextCounts]:
    """Accuracy, loss and, if the tags mark spans, F1 of spans, from the counts of each sentence."""
    from seqeval.metrics.sequence_labeling import get_entities

    true_N, first = sentences.label, sentences.word_starts[:-1]
    words = np.diff(sentences.word_starts)
    nats_N = -np.take_along_axis(log_p_NC, true_N[:, None], 1)[:, 0]
    counts = {
        "accuracy": mean_of(np.add.reduceat((best_N == true_N).astype(np.float64), first), words),
        "loss": mean_of(np.add.reduceat(nats_N, first), words),
    }
    if marks_spans(labels):
        true, predicted = ([set(get_entities(tags)) for tags in _by_sentence(n, sentences, labels)] for n in (true_N, best_N))
        hits = [len(one & other) for one, other in zip(true, predicted, strict=True)]
        counts = {"f1": f1_of(hits, list(map(len, predicted)), list(map(len, true)))} | counts
    return counts


def marks_spans(labels: Sequence[str]) -> bool:
    """True if every label is O or has the form B-PER, and at least one is not O."""
    marked = [label for label in labels if label != "O"]
    return bool(marked) and all(label[:1] in _PREFIXES and label[1:2] == "-" and len(label) > 2 for label in marked)


def _by_sentence(number_N: NDArray[np.int64], sentences: Sentences, labels: Sequence[str]) -> list[list[str]]:
    cuts = sentences.word_starts[1:-1]
    return [[labels[number] for number in part.tolist()] for part in np.split(number_N, cuts)]


def _spans(true: list[list[str]], predicted: list[list[str]]) -> Iterator[SpanMeasures]:
    """Measures of each type, then of all spans together."""
    from seqeval.metrics import classification_report

    if all(tag == "O" for sentences in (true, predicted) for tags in sentences for tag in tags):
        yield SpanMeasures("all", 0, 0.0, 0.0, 0.0)  # seqeval reports nothing without spans
        return
    report: dict[str, dict[str, Any]] = classification_report(true, predicted, output_dict=True, zero_division=0)
    overall = report.pop("micro avg")
    for average in ("macro avg", "weighted avg"):
        report.pop(average)
    for type, measures in (*sorted(report.items()), ("all", overall)):
        scores = (float(measures[name]) for name in ("precision", "recall", "f1-score"))
        yield SpanMeasures(type, int(measures["support"]), *scores)


def _strict_f1(true: list[list[str]], predicted: list[list[str]], labels: Sequence[str]) -> float | None:
    """F1 by the scheme that the prefixes imply; None if the true tags violate it (as IOB1 tags violate IOB2)."""
    from seqeval.metrics import f1_score
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB2, IOBES, Entities

    scheme: Any = IOB2 if all(label[0] in "OBI" for label in labels) else IOBES
    allowed = [[(one.tag, one.start, one.end - 1) for one in entities] for entities in Entities(true, scheme=scheme).entities]
    if allowed != [get_entities(tags) for tags in true]:
        return None
    return float(f1_score(true, predicted, mode="strict", scheme=scheme, zero_division=0))
