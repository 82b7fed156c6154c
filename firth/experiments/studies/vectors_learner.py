"""Arms of word vectors, trained or counted. A run that is interrupted starts again: only finished vectors are kept.

Its folder holds vectors.toml (settings), log.jsonl, history.jsonl and, written last, vectors.firth.
"""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from firth import files
from firth.errors import ConfigError, option
from firth.experiments.studies.learner import Measured
from firth.experiments.studies.study import Arm, Measure
from firth.experiments.studies.table_learner import TableLearner
from firth.experiments.studies.vector_tests import VectorTests, expect_metric
from firth.experiments.studies.vectors_config import CorpusSettings, CountedVectorsConfig, TrainedVectorsConfig
from firth.files import is_file
from firth.training import history, log
from firth.training.folder import RunFolder
from firth.vectors import cooccur, load, train
from firth.vectors.config import CooccurrenceConfig, VectorsConfig
from firth.vectors.display import Report
from firth.vectors.encoding import encoded
from firth.vectors.sentences import opened
from firth.vectors.trainer import TrainingCallbacks
from firth.vectors.training_log import TrainingLog
from firth.vectors.wordvectors import WordVectors

SETTINGS, VECTORS = "vectors.toml", "vectors.firth"


@dataclass(frozen=True)
class VectorsLearner(TableLearner):
    """Settings of word vectors, and the folder of the study, beside which the corpus may lie."""

    file = SETTINGS
    Config: ClassVar[type[CorpusSettings]]

    @abstractmethod
    def make(self, corpus: str, report: Callable[[Report], object]) -> WordVectors:
        """Vectors of the words of a corpus."""

    def expect_measurable(self, measures: Mapping[str, Measure], arm: str) -> None:
        for name, measure in measures.items():
            if self.setting_of(measure.metric) is None:
                expect_metric(name, measure, arm)

    def run(self, folder: Path, measures: Mapping[str, Measure]) -> Measured:
        tests = VectorTests.of(measures)  # a file that is missing or damaged is reported before the training
        if not is_file(folder / VECTORS):
            self._train(folder)
        elif what := self.differences(folder):
            raise ConfigError(f"{folder} holds vectors with {what[0]}. Choose another {option('folder', '--out')}.")
        vectors = load(folder / VECTORS, progress=False)
        facts, scores = _facts(folder, vectors), tests.scores(vectors)
        known = {name: self.setting_of(measure.metric) for name, measure in measures.items()}
        return Measured({name: scores.get(name, facts.get(one.metric, known[name])) for name, one in measures.items()})

    def _train(self, folder: Path) -> None:
        place = self.write_settings(folder)
        own = self.beside / self.config.corpus
        corpus = str(own) if is_file(own) else self.config.corpus
        with opened(corpus) as text:
            inputs = {"corpus": files.fingerprint(text.files)}
        training = _InProgress(TrainingLog(place.log))
        with history.recorded(place, training, inputs):
            self.make(corpus, training.report).save(folder / VECTORS)


@dataclass(frozen=True)
class TrainedVectors(VectorsLearner):
    """word2vec."""

    base = "vectors"
    tables: ClassVar[tuple[str, ...]] = ("vectors",)
    Config = TrainedVectorsConfig

    @classmethod
    def of(cls, arm: Arm, chosen: Mapping[str, Any], beside: Path) -> Self:
        learner = super().of(arm, chosen, beside)
        if "vectors.negatives" in chosen and learner.config.loss != "ns":
            raise ConfigError(f'vectors.negatives only applies to the loss "ns"; the loss is "{learner.config.loss}". Remove it.')
        return learner

    def make(self, corpus: str, report: Callable[[Report], object]) -> WordVectors:
        given = {field.name: getattr(self.config, field.name) for field in dataclasses.fields(VectorsConfig)}
        alone: dict[str, Any] = {**given, "threads": 1, "deterministic": True}
        words = {"lower": self.config.lower, "strip_punctuation": self.config.strip_punctuation}
        vectors = train(corpus, **alone, **words, watcher=TrainingCallbacks(block=report))
        if not self.config.add_contexts:
            return vectors
        assert vectors.outputs is not None
        return WordVectors(vectors.words, vectors.vectors + vectors.outputs, vectors.counts, vectors.metadata)


@dataclass(frozen=True)
class CountedVectors(VectorsLearner):
    """Co-occurrence counts or PPMI, whole or reduced by an SVD."""

    base = "counts"
    tables: ClassVar[tuple[str, ...]] = ("counts",)
    Config = CountedVectorsConfig

    def seeded(self, seed: int, after: Path | None) -> Self:
        return self

    def make(self, corpus: str, report: Callable[[Report], object]) -> WordVectors:
        config: CountedVectorsConfig = self.config
        words: dict[str, Any] = {"lower": config.lower, "strip_punctuation": config.strip_punctuation}
        # read into the cache, so that reading is not timed
        text = encoded(corpus, min_count=config.min_count, max_vocab=config.max_vocab, **words)
        began = time.monotonic()
        given = {field.name: getattr(config, field.name) for field in dataclasses.fields(CooccurrenceConfig)}
        vectors = cooccur(corpus, **given, **words, progress=False)
        report(Report(1, 1, text.raw_words, text.raw_words, None, (), time.monotonic() - began))
        return vectors


class _InProgress:
    """A training, as its history and its log see it."""

    def __init__(self, log: TrainingLog) -> None:
        self.step, self.device = 0, torch.device("cpu")
        self._log = log

    def report(self, report: Report) -> None:
        self.step = report.words
        self._log.write(report)


def _facts(folder: Path, vectors: WordVectors) -> dict[str, float | None]:
    """See RUN_FACTS."""
    last = (log.read(RunFolder(folder).log) or [{}])[-1]
    tokens, seconds = last.get("tokens"), last.get("seconds")
    speed = tokens / seconds if tokens and seconds else None
    return {"vocabulary": float(len(vectors)), "tokens": tokens, "seconds": seconds, "tokens_per_second": speed}
