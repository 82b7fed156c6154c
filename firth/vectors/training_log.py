"""The progress of a training of word vectors as a file: the keys of a run's log.jsonl; a step is a word."""

from __future__ import annotations

import json
from pathlib import Path

from firth import files
from firth.vectors.display import Report


class TrainingLog:
    """One line of JSON for each report. The first one replaces what the file held before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begun = False

    def write(self, report: Report) -> None:
        line = {"step": report.words, "tokens": report.words, "of": report.of, "seconds": report.seconds}
        loss = report.losses[-1] if report.loss is None and report.losses else report.loss  # at the end of an epoch: its mean
        with files.writing(self.path), self.path.open("a" if self._begun else "w", encoding="utf-8") as file:
            file.write(json.dumps({**line, "epoch": report.epoch, "loss": loss}) + "\n")
        self._begun = True
