"""The tables `vectors` and `counts` of an arm: a corpus, and settings of `firth vectors train` or `firth vectors cooccur`."""

from __future__ import annotations

from dataclasses import dataclass

from firth.errors import ConfigError
from firth.vectors.config import CooccurrenceConfig, VectorsConfig

_ONE_THREAD = ("threads", "deterministic", "device")


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """The text, and how its words are read."""

    corpus: str  # a named data set, or a text: a file, beside that of the study or in the current folder
    lower: bool = False  # read all words in lower case
    strip_punctuation: bool = False  # read punctuation as space

    def __post_init__(self) -> None:
        if self.corpus == "-":
            raise ConfigError('corpus is "-", but the runs of a study cannot share one standard input. Save the text to a file.')


@dataclass(frozen=True, kw_only=True)
class TrainedVectorsConfig(CorpusSettings, VectorsConfig):
    """word2vec in one thread of the CPU, so that results depend on nothing but the settings."""

    add_contexts: bool = False  # measure v + u, the sum of each word's vectors as a word and as a context

    def __post_init__(self) -> None:
        CorpusSettings.__post_init__(self)
        VectorsConfig.__post_init__(self)
        for name in _ONE_THREAD:
            if getattr(self, name) != VectorsConfig.__dataclass_fields__[name].default:
                raise ConfigError(f"vectors.{name} cannot be set in a study, which trains each run in one CPU thread. Remove it.")
        if self.add_contexts and self.loss == "hs":
            raise ConfigError('vectors.add_contexts needs vectors of contexts, which loss = "hs" does not have. Remove it.')


@dataclass(frozen=True, kw_only=True)
class CountedVectorsConfig(CorpusSettings, CooccurrenceConfig):
    """Rows of a matrix of co-occurrence. They do not depend on the seed."""

    def __post_init__(self) -> None:
        CorpusSettings.__post_init__(self)
        CooccurrenceConfig.__post_init__(self)
