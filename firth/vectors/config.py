"""What a training of word vectors can be told."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, Literal, get_args

from firth.errors import ConfigError, did_you_mean

Model = Literal["skipgram", "cbow"]
Loss = Literal["ns", "hs", "softmax"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class VectorsConfig:
    """word2vec's settings, with the defaults of the field (gensim's, but for `model`)."""

    model: Model = "skipgram"  # skipgram: the word predicts each neighbour; cbow: the mean of the neighbours predicts the word
    loss: Loss = "ns"  # negative sampling, hierarchical softmax, or the exact softmax for a small vocabulary
    dim: int = 100
    window: int = 5  # at most so many neighbours on each side; how many is drawn anew for each word
    negatives: int = 5  # drawn for each pair (skipgram) or word (cbow); for loss = "ns" only
    epochs: int = 5
    min_count: int = 5  # words seen less often are dropped before windows are taken
    sample: float = 1e-3  # t of √(t/f) + t/f, the probability that a word of relative frequency f is kept; 0 keeps all
    rate: float = 0.025
    final_rate: float = 1e-4  # where the rate has fallen to, linearly, at the last word
    max_vocab: int | None = None  # the most frequent so many words; None: all
    threads: int | None = None  # None: as many as this process may run on
    seed: int = 0
    deterministic: bool = False  # one block after the other: the same vectors to the bit, whatever `threads`
    device: Device = "cpu"

    def __post_init__(self) -> None:
        for name, choices in (("model", Model), ("loss", Loss), ("device", Device)):
            _check_choice(name, getattr(self, name), get_args(choices))
        for name, least in (("dim", 1), ("window", 1), ("negatives", 1), ("epochs", 1), ("min_count", 1), ("seed", 0)):
            _check_whole(name, getattr(self, name), least)
        for name, least in (("max_vocab", 2), ("threads", 1)):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), least)
        for name in ("sample", "rate", "final_rate"):
            _check_number(name, getattr(self, name))
        if self.rate <= 0 or self.final_rate > self.rate:
            raise ConfigError(
                f"rate is {self.rate} and final_rate {self.final_rate}; expected rate > 0 and final_rate from 0 to rate"
            )

        if self.deterministic and self.device == "cuda":
            raise ConfigError(
                "deterministic training is on the CPU: a GPU adds up in an order of its own; leave out one of the two"
            )

    @property
    def workers(self) -> int:
        """Threads that train side by side."""
        if self.deterministic or self.device == "cuda":
            return 1
        return self.threads or _available()


def _available() -> int:
    if hasattr(os, "sched_getaffinity"):  # a container or `taskset` may give us fewer than the machine has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}.{did_you_mean(str(value), choices)}")


def _check_whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} is {value!r}; expected a whole number, at least {least}")


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{name} is {value!r}; expected a number, at least 0")
