"""What word vectors are measured by in a study: analogies and similarity as in `firth vectors evaluate`, and facts of a run.

accuracy = correct / covered: questions with a word that has no vector are left out
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from firth.errors import ConfigError, did_you_mean
from firth.experiments.studies.study import Measure
from firth.text.datasets import download
from firth.vectors import evaluation
from firth.vectors.evaluation import Analogies, AnalogyQuestion, ScoredPair
from firth.vectors.wordvectors import WordVectors

RUN_FACTS = ("vocabulary", "tokens", "seconds", "tokens_per_second")
_ANALOGIES: Mapping[str, Callable[[Analogies], float | None]] = {
    "analogies": lambda solved: solved.total.accuracy,
    "analogies.semantic": lambda solved: solved.semantic.accuracy,
    "analogies.syntactic": lambda solved: solved.syntactic.accuracy,
    "analogies.covered": lambda solved: solved.total.covered / solved.total.questions,
}
_SIMILARITY = {
    "similarity.ws353": "EN-WS-353-ALL.txt",
    "similarity.simlex999": "EN-SIMLEX-999.txt",
    "similarity.men": "EN-MEN-TR-3k.txt",
}
_MEAN = "similarity.mean"  # of those three
_OWN_PAIRS = "similarity"  # of a file with pairs of one's own
METRICS = (*_ANALOGIES, *_SIMILARITY, _MEAN, _OWN_PAIRS, *RUN_FACTS)
_OF_TEXTS = ("split", "shortest", "longest", "context_ratio")


def expect_metric(name: str, measure: Measure, arm: str) -> None:
    """Refuse a measure that word vectors do not have."""
    for setting in _OF_TEXTS:
        if getattr(measure, setting) is not None:
            raise ConfigError(f'measure.{name}.{setting} does not apply to word vectors, such as the arm "{arm}". Remove it.')
    if measure.metric not in METRICS:
        near = did_you_mean(measure.metric, METRICS)
        raise ConfigError(
            f'measure.{name}.metric is "{measure.metric}", which the word vectors of arm "{arm}" do not have.{near} '
            "Set measure.arms to measure other arms only."
        )
    if measure.metric == _OWN_PAIRS and measure.data is None:
        raise ConfigError(f"measure.{name} needs data, a file of word pairs, or one of {', '.join(_SIMILARITY)} as its metric.")
    if measure.data is not None and measure.metric not in (*_ANALOGIES, _OWN_PAIRS):
        raise ConfigError(f'measure.{name}.data does not apply to "{measure.metric}". Remove it, or measure "{_OWN_PAIRS}".')


@dataclass(frozen=True)
class VectorTests:
    """The tests of all measures, each file read once."""

    measures: Mapping[str, Measure]  # those that are tests
    questions: Mapping[Path, Sequence[AnalogyQuestion]]
    pairs: Mapping[Path, Sequence[ScoredPair]]

    @classmethod
    def of(cls, measures: Mapping[str, Measure]) -> VectorTests:
        tests = {name: one for name, one in measures.items() if one.metric not in RUN_FACTS and one.metric in METRICS}
        files = {path: one.metric in _ANALOGIES for one in tests.values() for path in _files(one)}
        return cls(
            tests,
            {path: evaluation.read_questions(path) for path, asks in files.items() if asks},
            {path: evaluation.read_pairs(path) for path, asks in files.items() if not asks},
        )

    def scores(self, vectors: WordVectors) -> dict[str, float | None]:
        """Of each measure, by its name."""
        solved = {path: evaluation.analogies(vectors, asked) for path, asked in self.questions.items()}
        judged = {
            path: evaluation.similarity(vectors, rows, path.name, restrict_vocab=evaluation.RESTRICT).spearman
            for path, rows in self.pairs.items()
        }
        scores: dict[str, float | None] = {}
        for name, one in self.measures.items():
            if one.metric in _ANALOGIES:
                scores[name] = _ANALOGIES[one.metric](solved[_files(one)[0]])
            else:
                known = [found for path in _files(one) if (found := judged[path]) is not None]
                scores[name] = fmean(known) if len(known) == len(_files(one)) else None
        return scores


def _files(measure: Measure) -> list[Path]:
    """What a test reads: one file, or for the mean three."""
    if measure.data is not None:
        return [Path(measure.data)]
    if measure.metric in _ANALOGIES:
        return [download.local("analogy") / "questions-words.txt"]
    names = _SIMILARITY.values() if measure.metric == _MEAN else [_SIMILARITY[measure.metric]]
    return [download.local("wordsim") / name for name in names]
