"""seconds_to(1.6): what a training had cost at the first validation whose loss was at most 1.6. Nothing is interpolated, so a
figure can only be as fine as training.evaluate_every."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from firth.errors import ConfigError
from firth.experiments.expressions import parsed

COSTS: Mapping[str, str] = {"seconds_to": "seconds", "steps_to": "step", "tokens_to": "tokens"}  # as a line of the log has them
NOT_REACHED = "not reached"


@dataclass(frozen=True)
class CostToLoss:
    """The seconds, steps or tokens of a training until its validation loss was at most `loss`. Seconds are those of the training
    steps, without validations and checkpoints."""

    name: str  # seconds_to, steps_to or tokens_to
    loss: float

    @property
    def heading(self) -> str:
        """ "seconds to 1.6" """
        return f"{self.name.replace('_', ' ')} {self.loss:g}"

    def of(self, lines: Sequence[Mapping[str, Any]]) -> float | int | None:
        """From the lines of a log; None if the loss was never reached."""
        for line in lines:
            valid = line.get("valid")
            loss = valid.get("loss") if isinstance(valid, Mapping) else None
            if _is_number(loss) and loss <= self.loss:
                cost = line.get(COSTS[self.name])
                return cost if _is_number(cost) else None
        return None


def cost_to_loss(name: str) -> CostToLoss | None:
    """What "seconds_to(1.6)" asks for; None for the name of another figure."""
    if name.partition("(")[0].strip() not in COSTS:
        return None
    match parsed(name, "the figure"):
        case ast.Call(func=ast.Name(id=cost), args=[ast.Constant(value=loss)], keywords=[]) if _is_number(loss):
            return CostToLoss(cost, float(loss))
    raise ConfigError(f'the figure "{name}" needs a validation loss, such as {name.partition("(")[0].strip()}(1.6)')


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
