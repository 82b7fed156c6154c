"""What stands between a gradient and the weights: clipping, and the look at every loss and norm that stops a run that diverges.

Where the numbers are at hand (a CPU), they are looked at before the update. A GPU would stand still for that. So there the update
is clipped by a number that Python never sees, a flag on the device turns all updates off from the first bad step on, and Python
reads each step's numbers one step later, when the device is busy with the next. Either way the weights are those of the last
good step when Diverged is raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.errors import Diverged


@dataclass(frozen=True)
class _Pending:
    step: int
    numbers_2: Tensor  # loss and gradient norm, on their way to the host
    arrived: torch.cuda.Event

    def arrive(self) -> tuple[int, float, float]:
        self.arrived.synchronize()
        loss, norm = self.numbers_2.tolist()
        return self.step, loss, norm


class Guard:
    def __init__(self, device: torch.device) -> None:
        self._bad = torch.zeros((), device=device) if device.type == "cuda" else None
        self._pending: list[_Pending] = []  # at most two: the step before the last, and the last
        self.known_loss = math.nan  # of the newest step that has been looked at

    def update(self, optimizer: torch.optim.Optimizer, loss: Tensor, clip: float, step: int) -> Tensor:
        """Update the weights by their gradients, unless they are not finite; the gradient norm before clipping."""
        # Asked of the optimiser, because to look for the parameters of a model takes Python longer than to add up their squares.
        trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in trained if parameter.grad is not None])
        if self._bad is None:
            self._look_at(step, float(loss), float(norm))
            if clip and norm > clip:
                torch.nn.utils.clip_grads_with_norm_(trained, clip, norm)
            optimizer.step()
        else:
            self._update_unseen(optimizer, loss, norm, clip)
            self._pending.append(_sent(step, loss, norm))
        return norm

    def look_back(self) -> None:
        """Look at the step before the last: on a GPU this waits until only one step is still to be done."""
        while len(self._pending) > 1:
            self._look_at(*self._pending.pop(0).arrive())

    def settle(self) -> None:
        """Look at all that has not been looked at yet; afterwards the last step is known to be good."""
        while self._pending:
            self._look_at(*self._pending.pop(0).arrive())

    def _look_at(self, step: int, loss: float, norm: float) -> None:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Diverged(f"the loss became {loss} with gradient norm {norm} at step {step}")
        self.known_loss = loss

    def _update_unseen(self, optimizer: Any, loss: Tensor, norm: Tensor, clip: float) -> None:
        """With two numbers that torch's fused optimisers read on the device: what to divide gradients by, and whether to stay."""
        assert self._bad is not None
        self._bad = torch.maximum(self._bad, (~(loss.isfinite() & norm.isfinite())).float())
        optimizer.found_inf = self._bad
        optimizer.grad_scale = (norm / clip).clamp(min=1.0).float() if clip else None
        optimizer.step()


def _sent(step: int, loss: Tensor, norm: Tensor) -> _Pending:
    numbers_2 = torch.empty(2, pin_memory=True)
    numbers_2.copy_(torch.stack((loss.float(), norm.float())), non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return _Pending(step, numbers_2, arrived)
