"""Settings for training word vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from firth.errors import ConfigError, did_you_mean
from firth.text.threads import cores

Model = Literal["skipgram", "cbow"]
Loss = Literal["ns", "hs", "softmax"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class VectorsConfig:
    """word2vec's settings. The defaults are gensim's, except for `model`."""

    model: Model = "skipgram"  # skipgram: pairs of a word and a neighbour; cbow: the mean of the neighbours predicts the word
    loss: Loss = "ns"  # negative sampling, hierarchical softmax, or the exact softmax for a small vocabulary
    dim: int = 100  # dimension of the vectors
    window: int = 5  # largest number of neighbours on each side; the actual number is drawn for each word
    negatives: int = 5  # negative samples for each word, with loss = "ns"
    epochs: int = 5  # passes over the text
    min_count: int = 5  # rarer words are dropped before windows are formed
    sample: float = 1e-3  # t in √(t/f) + t/f, the probability of keeping a word with relative frequency f; 0 keeps all
    rate: float = 0.025  # initial learning rate
    final_rate: float = 1e-4  # the rate falls linearly to this value
    max_vocab: int | None = None  # keep only this many of the most frequent words; None keeps all
    threads: int | None = None  # None: all cores available to this process
    seed: int = 0  # of the initial vectors and of all random draws
    deterministic: bool = False  # train in one thread: bit-identical vectors for the same seed, whatever `threads` is
    device: Device = "cpu"  # cpu or cuda
    faithful: bool = False  # the equations of the papers; see docs/word-vectors.md for what differs by default

    def __post_init__(self) -> None:
        for name, choices in (("model", Model), ("loss", Loss), ("device", Device)):
            _check_choice(name, getattr(self, name), get_args(choices))
        for name, least in (("dim", 1), ("window", 1), ("negatives", 1), ("epochs", 1), ("min_count", 1), ("seed", 0)):
            _check_whole(name, getattr(self, name), least)
        for name, least in (("max_vocab", 2), ("threads", 1)):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), least)
        for name in ("deterministic", "faithful"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; expected true or false")
        for name in ("sample", "rate", "final_rate"):
            _check_number(name, getattr(self, name))
        if self.rate <= 0 or self.final_rate > self.rate:
            raise ConfigError(
                f"rate is {self.rate} and final_rate is {self.final_rate}; expected 0 ≤ final_rate ≤ rate and rate > 0"
            )
        if self.deterministic and self.device == "cuda":
            raise ConfigError(
                "deterministic training only runs on the CPU; a GPU sums in no fixed order. Remove deterministic or device"
            )

    @property
    def workers(self) -> int:
        """Number of training threads."""
        if self.deterministic or self.device == "cuda":
            return 1
        return self.threads or cores()


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}.{did_you_mean(str(value), choices)}")


def _check_whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} is {value!r}; expected an integer ≥ {least}")


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{name} is {value!r}; expected a number ≥ 0")
