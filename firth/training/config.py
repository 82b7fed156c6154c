"""The `[training]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.config import renamed
from firth.errors import ConfigError

Schedule = Literal["constant", "cosine", "linear", "inverse-sqrt"]
Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    init: str | None = None  # a run to start from: its weights and its vocabulary
    steps: int = 1000
    batch: int = 32  # sequences per step
    batch_tokens: int = 4096  # sentence pairs: maximum tokens per step on each side, padding included
    context: int = 128  # tokens per sequence; longer sentence pairs are skipped
    carry: bool = False  # recurrent models: start each window from the final state of the previous one
    seed: int = 0
    device: Device = "auto"
    dtype: Literal["float32", "tf32", "bf16"] = "float32"  # precision of matrix products; weights stay float32
    compile: bool = False
    accumulate: int = 1  # split each batch into this many pieces to save memory; the update is the same

    optimizer: Literal["adamw", "sgd"] = "adamw"
    rate: float = 1e-3
    betas: tuple[float, ...] = (0.9, 0.95)
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    schedule: Schedule = "cosine"
    warmup: int = 0  # steps of linear increase to `rate`; at most half of all steps
    final_rate_ratio: float = renamed("final", default=0.1)  # rate of the last step / `rate` (cosine and linear)
    average: float = 0.0  # decay of a running average of the weights, which is validated and saved; 0: no averaging

    log_every: int = 10
    tensorboard: bool = False  # also log to TensorBoard event files in RUN/tensorboard
    evaluate_every: int = 0  # 0: only after the last step
    checkpoint_every: int = 0  # 0: only after the last step, and on Ctrl-C or SIGTERM
    keep: int = 2  # number of checkpoints to keep
    select: str = "loss"  # the validation metric that selects the best weights: lowest loss, or highest other metric
    patience: int = 0  # stop after this many evaluations without improvement; 0: never

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "batch_tokens", "context", "accumulate", "log_every", "keep"):
            _expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in (
            "warmup",
            "evaluate_every",
            "checkpoint_every",
            "patience",
            "clip",
            "weight_decay",
            "final_rate_ratio",
            "seed",
        ):
            _expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _expect("rate", self.rate, self.rate > 0, "more than 0")
        _expect("average", self.average, 0 <= self.average < 1, "0 ≤ average < 1, for example 0.999")
        _expect("momentum", self.momentum, 0 <= self.momentum < 1, "0 ≤ momentum < 1")
        _expect("betas", self.betas, len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas), "two numbers in [0, 1)")
        if self.batch % self.accumulate:
            raise ConfigError(
                f"training.batch = {self.batch} is not a multiple of training.accumulate = {self.accumulate}; change one of them"
            )


def _expect(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"training.{name} is {value}; expected {expected}")
