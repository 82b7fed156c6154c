"""The learning rate as a pure function of the step, so there is no schedule state to save or restore."""

from __future__ import annotations

import math

from firth.training.config import TrainingConfig


def rate_at(config: TrainingConfig, step: int) -> float:
    """Rate of the update after `step` finished updates: linear warm-up over `warmup` steps, then the schedule.

    Warm-up takes at most half of the run."""
    warmup = min(config.warmup, config.steps // 2)
    if step < warmup:
        return config.rate * (step + 1) / warmup
    lowest = config.rate * config.final_rate_ratio
    progress = (step - warmup) / max(1, config.steps - 1 - warmup)  # 0 after the warm-up, 1 at the last step
    progress = min(1.0, progress)
    match config.schedule:
        case "constant":
            return config.rate
        case "cosine":
            return lowest + (config.rate - lowest) * (1 + math.cos(math.pi * progress)) / 2
        case "linear":
            return lowest + (config.rate - lowest) * (1 - progress)
        case "inverse-sqrt":  # Vaswani et al. 2017, eq. 3, with its peak at `rate`
            return config.rate * math.sqrt(max(1, warmup) / (step + 1))
