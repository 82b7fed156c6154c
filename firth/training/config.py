"""The `[training]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError

Schedule = Literal["constant", "cosine", "linear", "inverse-sqrt"]
Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    init: str | None = None  # a run whose weights and vocabulary this one begins with
    steps: int = 1000
    batch: int = 32  # sequences per step
    batch_tokens: int = 4096  # sentence pairs: the most tokens per step, on either side, padding included
    context: int = 128  # tokens per sequence; longer sentence pairs are left out of training
    carry: bool = False  # recurrent models: start each window from the state at the end of the one before it
    seed: int = 0
    device: Device = "auto"
    dtype: Literal["float32", "tf32", "bf16"] = "float32"  # of the factors of products; weights are float32 always
    compile: bool = False
    accumulate: int = 1  # cut each batch into this many pieces to save memory; the result is the same

    optimizer: Literal["adamw", "sgd"] = "adamw"
    rate: float = 1e-3
    betas: tuple[float, ...] = (0.9, 0.95)
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0  # largest gradient norm; 0 leaves gradients as they are
    schedule: Schedule = "cosine"
    warmup: int = 0  # steps of linear climb to `rate`; at most half of all steps
    final: float = 0.1  # rate at the last step, as a share of `rate` (cosine and linear)
    average: float = 0.0  # decay of a running mean of the weights, which is then validated and saved; 0: the weights themselves

    log_every: int = 10
    tensorboard: bool = False  # also write what goes into log.jsonl as TensorBoard events, to RUN/tensorboard
    evaluate_every: int = 0  # 0: only after the last step
    checkpoint_every: int = 0  # 0: only after the last step (and when stopped)
    keep: int = 2  # checkpoints to keep
    select: str = "loss"  # the validation metric that chooses the best weights; the tasks list theirs (lowest loss, else highest)
    patience: int = 0  # stop after so many evaluations without a better one; 0: never

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "batch_tokens", "context", "accumulate", "log_every", "keep"):
            _expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("warmup", "evaluate_every", "checkpoint_every", "patience", "clip", "weight_decay", "final", "seed"):
            _expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _expect("rate", self.rate, self.rate > 0, "more than 0")
        _expect("average", self.average, 0 <= self.average < 1, "0 ≤ average < 1, for example 0.999")
        _expect("momentum", self.momentum, 0 <= self.momentum < 1, "0 ≤ momentum < 1")
        _expect("betas", self.betas, len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas), "two numbers in [0, 1)")
        if self.batch % self.accumulate:
            raise ConfigError(f"training.accumulate = {self.accumulate} does not divide training.batch = {self.batch}")


def _expect(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"training.{name} is {value}; expected {expected}")
