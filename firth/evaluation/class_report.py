"""Precision, recall and F1 of each class as csv, with the columns and the last three rows of sklearn's classification_report."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("class", "precision", "recall", "f1-score", "support")


def report_csv(classes: Sequence[Mapping[str, Any]], accuracy: float) -> str:
    """`classes`: a `ClassMeasures` as a dict for each. The accuracy stands in the column f1-score, as in sklearn's table."""
    total = sum(one["examples"] for one in classes)
    scores = [(one["precision"], one["recall"], one["f1"]) for one in classes]
    weighted = [sum(one["examples"] * score[n] for one, score in zip(classes, scores, strict=True)) / total for n in range(3)]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows((one["label"], *score, one["examples"]) for one, score in zip(classes, scores, strict=True))
    rows.writerow(("accuracy", "", "", accuracy, total))
    rows.writerow(("macro avg", *(sum(column) / len(scores) for column in zip(*scores, strict=True)), total))
    rows.writerow(("weighted avg", *weighted, total))
    return text.getvalue()
