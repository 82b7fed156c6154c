"""Arms of word vectors, trained or counted. A run that is interrupted starts again: only finished vectors are kept.

Its folder holds vectors.toml (settings), log.jsonl, history.jsonl and, written last, vectors.firth.
"""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import tomli_w
import torch

from firth import files
from firth.config import build, nested, read_toml, settings, to_table
from firth.errors import ConfigError, did_you_mean, option
from firth.experiments.studies.facts import setting_in
from firth.experiments.studies.learner import Measured
from firth.experiments.studies.study import Arm, Measure
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
class VectorsLearner(ABC):
    """Settings of word vectors, and the folder of the study, beside which the corpus may lie."""

    config: Any  # of the class Config
    beside: Path
    base: ClassVar[str]  # the table of an arm that has its settings
    tables: ClassVar[tuple[str, ...]]  # those of all settings that apply
    Config: ClassVar[type[CorpusSettings]]

    @property
    def steps(self) -> int:
        """Words: the log says how many, once the text has been read."""
        return 0

    @abstractmethod
    def make(self, corpus: str, report: Callable[[Report], object]) -> WordVectors:
        """Vectors of the words of a corpus."""

    @classmethod
    def of(cls, arm: Arm, chosen: Mapping[str, Any], beside: Path) -> Self:
        for name in chosen:
            if name.partition(".")[0] not in cls.tables:
                known = [f"{cls.base}.{field.name}" for field in dataclasses.fields(cls.Config)]
                raise ConfigError(f"{name} is no setting of the arms with [{cls.base}].{did_you_mean(name, known)}")
        return cls(build(cls.Config, nested(chosen).get(cls.base, {}), cls.base), beside)

    def seeded(self, seed: int, after: Path | None) -> Self:
        assert after is None  # Study has refused it
        return self

    def expect_measurable(self, measures: Mapping[str, Measure], arm: str) -> None:
        for name, measure in measures.items():
            if self.setting_of(measure.metric) is None:
                expect_metric(name, measure, arm)

    def setting_of(self, metric: str) -> float | None:
        return setting_in({self.base: self.config}, metric)

    def differences(self, folder: Path) -> list[str]:
        if not is_file(folder / SETTINGS):
            return ["another kind of run"]
        table = read_toml(folder / SETTINGS)
        if self.base not in table:
            return [f"{', '.join(table)} instead of {self.base}"]
        was, now = (_values(one) for one in (build(self.Config, table[self.base], self.base), self.config))
        return [f"{self.base}.{name} = {was[name]!r} instead of {now[name]!r}" for name in now if was[name] != now[name]]

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
        place = RunFolder(folder)
        if place.exists():
            raise ConfigError(f"{folder} holds a run of a network. Choose another {option('folder', '--out')}.")
        own = self.beside / self.config.corpus
        corpus = str(own) if is_file(own) else self.config.corpus
        files.write_text(folder / SETTINGS, tomli_w.dumps({self.base: to_table(self.config)}))
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

    def seeded(self, seed: int, after: Path | None) -> Self:
        return dataclasses.replace(self, config=dataclasses.replace(self.config, seed=self.config.seed + seed))

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


def _values(config: CorpusSettings) -> dict[str, Any]:
    return {name: value for name, value, _ in settings(config)}


def _facts(folder: Path, vectors: WordVectors) -> dict[str, float | None]:
    """See RUN_FACTS."""
    last = (log.read(RunFolder(folder).log) or [{}])[-1]
    tokens, seconds = last.get("tokens"), last.get("seconds")
    speed = tokens / seconds if tokens and seconds else None
    return {"vocabulary": float(len(vectors)), "tokens": tokens, "seconds": seconds, "tokens_per_second": speed}
