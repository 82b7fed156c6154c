"""The `[training]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from firth.config import expect_numbers, renamed
from firth.errors import ConfigError
from firth.ideas import Ideas
from firth.layers.lora import Target
from firth.models.adapters import Lora
from firth.training.loggers import LoggerKind
from firth.training.optim import OPTIMIZERS, MuonAdjust, OptimizerKind
from firth.training.schedule import SCHEDULES, ScheduleKind

Device = Literal["auto", "cpu", "cuda", "mps"]
ParallelTraining = Literal["auto", "ddp", "fsdp", "none"]


def _with_tensorboard(value: Any) -> Any:
    """training.log_to from `training.tensorboard`, which was true or false."""
    return ["tensorboard"] * value if isinstance(value, bool) else value


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    # run folder to start from, with its weights and its vocabulary; "recipe:NAME" trains that recipe first, once, and keeps its
    # run in the cache folder; if not set, the initial weights are random
    init: str | None = None
    # rank of LoRA adapters (Hu et al. 2021), which are trained in place of the weights of `init`; 0: train all weights
    lora: int = 0
    lora_alpha: float | None = None  # adapters are multiplied by lora_alpha / lora; if not set, by 1
    lora_dropout: float = 0.0  # dropout of the input of adapters
    # projections that have adapters, in every layer; those of attention to a source included
    lora_targets: tuple[Target, ...] = ("query", "value")
    # parts of the model that keep their initial weights, such as `["encoder"]` or `["embedding", "encoder.stack.blocks.0"]`; if
    # not set, everything is trained
    freeze: tuple[str, ...] | None = None
    steps: int = 1000  # number of updates
    batch: int = 32  # sequences per step; for sentence pairs, see `batch_tokens`
    batch_tokens: int = 4096  # maximum number of tokens per step on each side of the sentence pairs, padding included
    # tokens per window of running text, or of a question with its passage; longer sentence pairs are left out of training
    context: int = 128
    carry: bool = False  # start each window from the final hidden state of the previous one; only for recurrent language models
    # standard deviation of the lengths of windows, which then vary around `context`, or half of it in one of twenty windows; the
    # learning rate varies with them (Merity et al. 2018); needs `carry`
    context_deviation: float = 0.0
    seed: int = 0  # seed of the initial weights, the order of the data, and dropout
    device: Device = "auto"  # device to train on; "auto": cuda if there is a GPU, otherwise cpu
    dtype: Literal["float32", "tf32", "bf16"] = "float32"  # precision of matrix products; weights and updates stay in float32
    compile: bool = False  # compile the model with torch.compile
    accumulate: int = 1  # number of pieces into which each batch is split to save memory; the update is the same
    recompute: bool = False  # save memory: compute the inside of each Transformer block again in the backward pass
    # how the processes that torchrun started share each batch: "ddp", each holds all weights; "fsdp", each holds a part of them;
    # "auto": ddp if there are several; "none": refuse several
    parallel: ParallelTraining = "auto"
    reduce: Literal["float32", "bf16"] = "float32"  # precision in which processes exchange gradients
    timeout: float = 600.0  # seconds that a process waits for the others in a step before it gives up

    # optimiser: AdamW, stochastic gradient descent, the same with averaged weights, Muon, or AdamW with averaged weights
    optimizer: OptimizerKind = "adamw"
    rate: float = 1e-3  # learning rate, at its highest
    # decay rates of the mean gradient and of the mean squared gradient; only for `optimizer = "adamw"`, `"muon"` and
    # `"schedule-free"`
    betas: tuple[float, ...] = (0.9, 0.95)
    momentum: float = 0.0  # momentum of stochastic gradient descent; only for `optimizer = "sgd"`
    # averaging starts when a validation loss is above the lowest of all before the last so many; only for `optimizer = "nt-asgd"`
    nonmonotone_interval: int = 5
    # momentum of the gradients of hidden matrices, a running mean; the settings muon_… are only for `optimizer = "muon"`
    muon_momentum: float = 0.95
    muon_nesterov: bool = True  # look ahead: orthogonalise the mean of the next step, as if it had the same gradient again
    muon_iterations: int = 5  # Newton–Schulz iterations, which make the update nearly orthogonal
    # size of an update of n × m weights at rate 1: "match_rms_adamw", 0.2 √max(n, m), so that rate and weight decay are those of
    # AdamW (Liu et al. 2025); "original", √max(1, n / m) (Jordan et al. 2024)
    muon_adjust: MuonAdjust = "match_rms_adamw"
    muon_rate_ratio: float = 1.0  # learning rate of hidden matrices divided by `rate`
    weight_decay: float = 0.0  # weight decay of matrices; biases and normalisation gains have none
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    # learning-rate schedule after the warm-up: constant, or decay along a cosine, a line, or 1/√step; "wsd": constant, then decay
    # along a line
    schedule: ScheduleKind = "cosine"
    warmup: int = 0  # steps over which the learning rate rises linearly to `rate`; at most half of all steps
    # learning rate of the last step divided by `rate`; only for `schedule = "cosine"`, `"linear"` and `"wsd"`
    final_rate_ratio: float = renamed("final", default=0.1)
    decay_share: float = 0.2  # share of the steps after the warm-up in which the rate falls; only for `schedule = "wsd"`
    # decay of an exponential moving average of the weights, which is validated and saved instead of them; 0: no averaging
    average: float = 0.0

    log_every: int = 10  # steps between two lines of the log
    # experiment trackers that also get the lines of the log, such as `["tensorboard", "wandb"]`
    log_to: tuple[LoggerKind, ...] = renamed("tensorboard", default=(), converted=_with_tensorboard)
    evaluate_every: int = 0  # steps between two validations; 0: only after the last step
    checkpoint_every: int = 0  # steps between two checkpoints; 0: only after the last step, and on Ctrl-C or SIGTERM
    keep: int = 2  # number of checkpoints to keep
    # validation metric that selects the best weights: the lowest loss, or the highest value of another metric
    select: str = "loss"
    patience: int = 0  # number of validations without improvement after which training stops; 0: never

    def __post_init__(self) -> None:
        expect_numbers("training", self)
        for name in ("steps", "batch", "batch_tokens", "context", "accumulate", "log_every", "keep"):
            _expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("batch", "batch_tokens", "context", "accumulate", "lora"):
            _expect(name, getattr(self, name), getattr(self, name) < 1 << 31, "less than 2³¹")
        every = ("warmup", "evaluate_every", "checkpoint_every", "patience", "nonmonotone_interval")
        for name in (*every, "clip", "weight_decay", "final_rate_ratio", "seed", "lora"):
            _expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _expect("rate", self.rate, self.rate > 0, "more than 0")
        _expect("timeout", self.timeout, 0 < self.timeout < 1e6, "more than 0 and less than 1,000,000 seconds")
        _expect("average", self.average, 0 <= self.average < 1, "0 ≤ average < 1, for example 0.999")
        for name in ("momentum", "muon_momentum"):
            _expect(name, getattr(self, name), 0 <= getattr(self, name) < 1, f"0 ≤ {name} < 1")
        _expect("muon_iterations", self.muon_iterations, 1 <= self.muon_iterations < 100, "1 to 99")  # torch's limit
        self._check_validation()
        self._check_windows()
        _expect("decay_share", self.decay_share, 0 < self.decay_share <= 1, "0 < decay_share ≤ 1")
        _expect("muon_rate_ratio", self.muon_rate_ratio, self.muon_rate_ratio > 0, "more than 0")
        _expect("betas", self.betas, len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas), "two numbers in [0, 1)")
        self._check_idea("optimizer", OPTIMIZERS)
        self._check_idea("schedule", SCHEDULES)
        self._check_constant_rate()
        _expect("lora_alpha", self.lora_alpha, self.lora_alpha is None or self.lora_alpha > 0, "more than 0")
        _expect("lora_dropout", self.lora_dropout, 0 <= self.lora_dropout < 1, "0 ≤ lora_dropout < 1")
        _expect("lora_targets", list(self.lora_targets), len(self.lora_targets) > 0, "at least one projection")
        _expect("log_to", list(self.log_to), len(set(self.log_to)) == len(self.log_to), "each name once")
        if self.lora and self.init is None:
            raise ConfigError(
                f"training.lora is {self.lora}, but adapters need a trained model to adapt. Set training.init to its run."
            )
        if self.freeze is not None and (not self.freeze or "" in self.freeze or len(set(self.freeze)) < len(self.freeze)):
            raise ConfigError(f"training.freeze is {list(self.freeze)}; expected the names of parts of the model, each once")
        if self.freeze and self.lora:
            raise ConfigError(
                f"training.lora is {self.lora}, which already freezes all weights of training.init. Remove training.freeze."
            )
        if self.batch % self.accumulate:
            raise ConfigError(
                f"training.batch = {self.batch} is not a multiple of training.accumulate = {self.accumulate}; change one of them"
            )

    def _check_validation(self) -> None:
        """Refuse settings that an optimiser with an average of its own, or one that depends on validations, cannot have."""
        kind = OPTIMIZERS[self.optimizer]
        if kind.averages and self.average:
            raise ConfigError(
                f'training.average is {self.average}, but training.optimizer = "{kind.kind}" has an average of its own. '
                "Remove training.average."
            )
        if kind.needs_validation and not self.evaluate_every:
            raise ConfigError(
                f'training.optimizer = "{kind.kind}" depends on the validation loss during training. Set training.evaluate_every.'
            )

    def _check_constant_rate(self) -> None:
        kind = OPTIMIZERS[self.optimizer]
        if not kind.needs_constant_rate:
            return
        if SCHEDULES[self.schedule].decays:
            raise ConfigError(
                f'training.schedule is "{self.schedule}", but training.optimizer = "{kind.kind}" replaces a decaying rate by an '
                'average. Set training.schedule to "constant"; training.warmup still applies.'
            )
        _expect("betas", self.betas, self.betas[0] > 0, f'a first number above 0 for optimizer = "{kind.kind}"')

    def _check_windows(self) -> None:
        given = self.context_deviation
        _expect("context_deviation", given, 0 <= given < self.context, "0 or more, and less than training.context")
        if given and not self.carry:
            raise ConfigError(f"training.context_deviation is {given}, which needs training.carry. Set it to true.")
        if given and self.compile:
            raise ConfigError(
                f"training.context_deviation is {given}, but training.compile needs windows of one length. Remove one of them."
            )

    def _check_idea(self, name: str, ideas: Ideas[Any]) -> None:
        """Refuse settings that only other optimisers, or other schedules, have."""
        chosen = ideas[getattr(self, name)]
        defaults = {field.name: field.default for field in fields(self)}
        for setting in {setting for idea in ideas for setting in idea.uses} - set(chosen.uses):
            if getattr(self, setting) != defaults[setting]:
                kinds = " or ".join(f'"{idea.kind}"' for idea in ideas if setting in idea.uses)
                raise ConfigError(
                    f'training.{setting} only applies to training.{name} = {kinds}; given "{chosen.kind}". '
                    f"Remove training.{setting}, or change training.{name}."
                )

    @property
    def adapters(self) -> Lora:
        alpha = float(self.lora) if self.lora_alpha is None else self.lora_alpha
        return Lora(self.lora, alpha, self.lora_dropout, self.lora_targets)


def _expect(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"training.{name} is {value}; expected {expected}")
