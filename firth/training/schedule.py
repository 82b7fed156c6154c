"""The learning rate as a pure function of the step, so there is no schedule state to save or restore. To add a schedule, write a
class with `rate` and add it to SCHEDULES."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Protocol

from firth.ideas import Idea, Ideas


class ScheduleSettings(Protocol):
    """The settings of [training] that schedules use."""

    @property
    def schedule(self) -> str: ...
    @property
    def rate(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def warmup(self) -> int: ...
    @property
    def final_rate_ratio(self) -> float: ...
    @property
    def decay_share(self) -> float: ...


class Schedule(Idea, ABC):
    """The learning rate after the warm-up. `uses` names the settings of [training] that only some schedules have."""

    decays: ClassVar[bool] = True  # whether the rate is lower at the end

    @staticmethod
    @abstractmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        """The rate of the update after `step` finished updates; `progress` is 0 after the warm-up and 1 at the last step."""


class Constant(Schedule):
    kind = "constant"
    about = "The same rate throughout."
    latex = r"\eta"
    decays = False

    @staticmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        return config.rate


class CosineSchedule(Schedule):
    kind = "cosine"
    about = "Falls along half a cosine, slowly at both ends (Loshchilov & Hutter 2017)."
    latex = r"\eta_1 + \tfrac{1}{2} (\eta - \eta_1) (1 + \cos \pi t / T)"
    uses = ("final_rate_ratio",)

    @staticmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        lowest = _lowest(config)
        return lowest + (config.rate - lowest) * (1 + math.cos(math.pi * progress)) / 2


class LinearSchedule(Schedule):
    kind = "linear"
    about = "Falls along a line."
    latex = r"\eta_1 + (\eta - \eta_1) (1 - t / T)"
    uses = ("final_rate_ratio",)

    @staticmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        lowest = _lowest(config)
        return lowest + (config.rate - lowest) * (1 - progress)


class InverseSqrt(Schedule):
    kind = "inverse-sqrt"
    about = "Falls with one over the root of the step (Vaswani et al. 2017, eq. 3), with its peak at `rate`."
    latex = r"\eta \sqrt{w / t}"

    @staticmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        return config.rate * math.sqrt(max(1, warmup_steps(config)) / (step + 1))


class WarmupStableDecay(Schedule):
    kind = "wsd"
    label = "warm-up, stable, decay"
    about = "Stays constant, then falls along a line over the last share δ of the steps (Hu et al. 2024)."
    latex = r"\eta_1 + (\eta - \eta_1) \min \left( 1, \frac{1 - t / T}{\delta} \right)"
    uses = ("final_rate_ratio", "decay_share")

    @staticmethod
    def rate(config: ScheduleSettings, step: int, progress: float) -> float:
        lowest = _lowest(config)
        return lowest + (config.rate - lowest) * min(1.0, (1 - progress) / config.decay_share)


SCHEDULES: Ideas[type[Schedule]] = Ideas(
    "learning-rate schedule", Schedule, (Constant, CosineSchedule, LinearSchedule, InverseSqrt, WarmupStableDecay)
)
ScheduleKind = Annotated[str, SCHEDULES]


def rate_at(config: ScheduleSettings, step: int) -> float:
    """Rate of the update after `step` finished updates: linear warm-up over `warmup` steps, then the schedule."""
    warmup = warmup_steps(config)
    if step < warmup:
        return config.rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, config.steps - 1 - warmup)
    return SCHEDULES[config.schedule].rate(config, step, min(1.0, progress))


def warmup_steps(config: ScheduleSettings) -> int:
    """Warm-up takes at most half of the run."""
    return min(config.warmup, config.steps // 2)


def _lowest(config: ScheduleSettings) -> float:
    return config.rate * config.final_rate_ratio
