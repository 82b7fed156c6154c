"""Settings for training and counting word vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from firth.config import setting
from firth.errors import ConfigError, did_you_mean
from firth.text.threads import cores

Model = Literal["skipgram", "cbow"]
Loss = Literal["ns", "hs", "softmax"]
Device = Literal["cpu", "cuda"]
Weight = Literal["raw", "ppmi"]
MAX_VOCAB = 5000  # words that are counted: a dense matrix of 100 MB


@dataclass(frozen=True)
class VectorsConfig:
    """word2vec's settings. The defaults are gensim's, except for `model`."""

    model: Model = setting("skipgram", "model: skipgram (a word predicts each neighbour) or cbow (their mean predicts the word)")
    loss: Loss = setting("ns", "loss: ns (negative sampling), hs (hierarchical softmax) or softmax (for small vocabularies)")
    dim: int = setting(100, "dimension of the vectors")
    window: int = setting(5, "largest number of context words on each side; the actual number is drawn for each word")
    negatives: int = setting(5, "negative samples for each word, with the loss ns")
    epochs: int = setting(5, "passes over the text")
    min_count: int = setting(5, "ignore words that occur fewer times than this, before windows are formed")
    sample: float = setting(
        1e-3, "subsampling threshold t: a word of relative frequency f is kept with probability √(t/f) + t/f; 0 keeps all"
    )
    rate: float = setting(0.025, "initial learning rate")
    final_rate: float = setting(1e-4, "final learning rate; the rate falls linearly")
    max_vocab: int | None = setting(None, "keep only this many of the most frequent words; by default all")
    threads: int | None = setting(None, "training threads; by default one per core")
    seed: int = setting(0, "random seed for initial weights and sampling")
    deterministic: bool = setting(False, "train in one thread: the same seed gives bit-identical vectors")
    device: Device = setting("cpu", "device: cpu or cuda")
    faithful: bool = setting(
        False,
        "train as the papers define it: the word predicts each neighbour, with negative samples for each pair; cbow divides its "
        "gradient; slower",
    )

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


@dataclass(frozen=True)
class CooccurrenceConfig:
    """What is counted, and what becomes of the counts."""

    window: int = setting(5, "words on each side that count as context")
    dynamic: bool = setting(
        False, "count a context at distance k as (window − k + 1) / window, the share of word2vec's windows that reach it"
    )
    sample: float = setting(
        0.0,
        "subsampling threshold t: a word of relative frequency f counts as √(t/f) + t/f of a word, at most 1; 0 keeps all",
    )
    weight: Weight = setting("ppmi", "weight: raw (counts) or ppmi (positive mutual information)")
    smoothing: float = setting(1.0, "power α of the counts of contexts in PPMI; 0.75 is that of word2vec's negative samples")
    negatives: int = setting(1, "shift PPMI by the logarithm of this number, as so many negative samples do")
    svd: int | None = setting(None, "reduce the vectors to this dimension; by default one column for each word")
    power: float = setting(1.0, "power p of the singular values: 1 for U S, 0 for U")
    add_contexts: bool = setting(False, "add the vector of each word as a context, V Sᵖ, to its own")
    min_count: int = setting(1, "ignore words that occur fewer times than this, before windows are formed")
    max_vocab: int = setting(MAX_VOCAB, "keep only this many of the most frequent words")

    def __post_init__(self) -> None:
        if self.weight not in get_args(Weight):
            raise ConfigError(f'unknown weight "{self.weight}"; expected raw or ppmi')
        for name in ("window", "min_count", "max_vocab", "svd", "negatives"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1")
        for name in ("sample", "smoothing", "power"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; expected a number ≥ 0")
        self._refuse_without("weight", "ppmi", "smoothing", "negatives")
        if self.svd is None:
            self._refuse_without("svd", None, "power", "add_contexts")

    def _refuse_without(self, needed: str, value: str | None, *names: str) -> None:
        """Refuse settings that only apply to another value of `needed`."""
        if value is not None and getattr(self, needed) == value:
            return
        for name in names:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                only = f'the {needed} "{value}"' if value else needed
                raise ConfigError(f"{name} is {getattr(self, name)}, which only applies to {only}. Remove it, or set {needed}.")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}.{did_you_mean(str(value), choices)}")


def _check_whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} is {value!r}; expected an integer ≥ {least}")


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{name} is {value!r}; expected a number ≥ 0")
