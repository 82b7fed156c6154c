"""Accuracy of tags word by word; where the tags mark spans, also precision, recall and F1 of whole spans, by seqeval.

Letters: N words, B sentences of a batch, W words, C tags. Tags mark spans where each is O or a prefix (B, I, E, S), a
hyphen and the type of the span. seqeval counts spans in two ways:

    as conlleval does, what papers report: I-PER after O begins a span, too
    strictly: only B begins one, and only what the scheme allows is a span; told where the true tags keep to a scheme
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.evaluation.classification import ClassMeasures
from firth.evaluation.classification import measures as measures_of_words
from firth.models.tagger import Tagger
from firth.progress import Progress, silent
from firth.text.batches.sentences import Sentences
from firth.training.loop import precision

_PREFIXES = frozenset("BIES")


@dataclass(frozen=True)
class SpanMeasures:
    type: str
    spans: int  # that are there
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class TaggingMeasures:
    loss: float  # mean nats per word
    accuracy: float  # share of the words whose most probable tag is theirs
    f1: float | None  # of spans; None where the tags mark none
    precision: float | None
    recall: float | None
    f1_strict: float | None  # None also where the true tags follow no scheme
    words: int
    sentences: int
    tags: tuple[ClassMeasures, ...]
    spans: tuple[SpanMeasures, ...] | None


def evaluate(
    model: Tagger,
    sentences: Sentences,
    labels: Sequence[str],
    *,
    batch: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> TaggingMeasures:
    return measures(log_probabilities(model, sentences, batch=batch, dtype=dtype, progress=progress), sentences, labels)


@torch.inference_mode()
def log_probabilities(
    model: Tagger, sentences: Sentences, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> NDArray[np.float64]:
    """log p_NC(tag | sentence) of all words, in order, normalised in float64."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    log_p_NC = np.empty((sentences.words, model.tags))
    done = 0
    for row_B, part in sentences.sweep(batch, spelled=model.spelling is not None):
        given = (part.token_BT, part.length_B, part.first_BW, part.symbol_BWK)
        with precision(device, dtype):
            logits_BWC = model(*(torch.from_numpy(array).to(device) for array in given))
        log_p_BWC = torch.log_softmax(logits_BWC.cpu().double(), -1).numpy()
        for row, log_p_WC in zip(row_B.tolist(), log_p_BWC, strict=True):
            first, last = sentences.word_starts[row : row + 2]
            log_p_NC[first:last] = log_p_WC[: last - first]
        done += len(row_B)
        progress("evaluating", done, len(sentences))
    model.train(was_training)
    return log_p_NC


def measures(log_p_NC: NDArray[np.float64], sentences: Sentences, labels: Sequence[str]) -> TaggingMeasures:
    """What the log-probabilities of the tags of all words are worth, beside the true ones."""
    by_word = measures_of_words(log_p_NC, sentences.label, labels)
    micro: SpanMeasures | None = None
    spans: tuple[SpanMeasures, ...] | None = None
    strict = None
    if marks_spans(labels):
        true, said = (_by_sentence(number_N, sentences, labels) for number_N in (sentences.label, log_p_NC.argmax(1)))
        *spans_, micro = _spans(true, said)
        spans, strict = tuple(spans_), _strict(true, said, labels)
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
    )


def marks_spans(labels: Sequence[str]) -> bool:
    """Whether each label is O or something like B-PER, and one is not O."""
    marked = [label for label in labels if label != "O"]
    return bool(marked) and all(label[:1] in _PREFIXES and label[1:2] == "-" and len(label) > 2 for label in marked)


def _by_sentence(number_N: NDArray[np.int64], sentences: Sentences, labels: Sequence[str]) -> list[list[str]]:
    cuts = sentences.word_starts[1:-1]
    return [[labels[number] for number in part.tolist()] for part in np.split(number_N, cuts)]


def _spans(true: list[list[str]], said: list[list[str]]) -> Iterator[SpanMeasures]:
    """Of each type, and of all spans together."""
    from seqeval.metrics import classification_report

    if all(tag == "O" for given in (true, said) for tags in given for tag in tags):
        yield SpanMeasures("all", 0, 0.0, 0.0, 0.0)  # seqeval reports nothing of nothing
        return
    report: dict[str, dict[str, Any]] = classification_report(true, said, output_dict=True, zero_division=0)
    together = report.pop("micro avg")
    for average in ("macro avg", "weighted avg"):
        report.pop(average)
    for type, found in (*sorted(report.items()), ("all", together)):
        shares = (float(found[name]) for name in ("precision", "recall", "f1-score"))
        yield SpanMeasures(type, int(found["support"]), *shares)


def _strict(true: list[list[str]], said: list[list[str]], labels: Sequence[str]) -> float | None:
    """F1 by the scheme that the prefixes tell; None where the true tags do not keep to it (as those of IOB1 do not to IOB2)."""
    from seqeval.metrics import f1_score
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB2, IOBES, Entities

    scheme: Any = IOB2 if all(label[0] in "OBI" for label in labels) else IOBES
    kept = [[(one.tag, one.start, one.end - 1) for one in found] for found in Entities(true, scheme=scheme).entities]
    if kept != [get_entities(tags) for tags in true]:
        return None
    return float(f1_score(true, said, mode="strict", scheme=scheme, zero_division=0))
