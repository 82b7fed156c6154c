"""Apply updates with gradient clipping, and stop a run whose loss or gradient norm is no longer finite, or whose loss exploded:

    loss > 1000 · max(loss of the first step, 1)

A loss can also overflow slowly: 2e20 is finite, but no model comes back from there. In healthy runs, even a spike stays far below
this limit, because the first loss is that of guessing.

On a CPU, loss and norm are checked before the update. On a GPU that check would stall the device. There, clipping uses the norm
on the device, a flag on the device disables all updates from the first bad step on, and Python checks each step's numbers one
step later, while the device computes the next. In both cases the weights are those of the last good step when Diverged is raised.
Only torch's fused optimisers read that norm and that flag; with any other, each step is checked before the update on a GPU, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.errors import Diverged
from firth.training.parallel import gathered

EXPLODED = 1000.0  # times the loss of the first step, or of 1


@dataclass(frozen=True)
class _Pending:
    step: int
    numbers_2: Tensor  # loss and gradient norm, being copied to the host
    arrived: torch.cuda.Event

    def wait(self) -> tuple[int, float, float]:
        self.arrived.synchronize()
        loss, norm = self.numbers_2.tolist()
        return self.step, loss, norm


class UpdateGuard:
    def __init__(self, device: torch.device, *, waits: bool = False) -> None:
        """`waits`: on a GPU, too, check loss and norm before the update. torch's fused optimisers do not combine parts of tensors
        (FSDP) with a flag, and such steps take so long that a wait is cheap."""
        self._bad = torch.zeros((), device=device) if device.type == "cuda" and not waits else None
        self._pending: list[_Pending] = []  # at most two: the last step and the one before it
        self.known_loss = math.nan  # of the newest step that has been checked
        self._first: float | None = None  # the loss of the first step since the start or the resumption
        self._limit: Tensor | None = None  # the same on the device, times EXPLODED

    def update(self, optimizer: torch.optim.Optimizer, loss: Tensor, clip: float, step: int) -> Tensor:
        """Clip the gradients and update the weights, unless loss or norm is not finite. Returns the norm before clipping."""
        # From the optimiser: walking the modules of a model would take Python longer than summing the squares.
        trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        norm = gathered(torch.nn.utils.get_total_norm([parameter.grad for parameter in trained if parameter.grad is not None]))
        if self._bad is None or not _reads_flags(optimizer):
            self._check(step, float(loss), float(norm))
            if clip and norm > clip:
                torch.nn.utils.clip_grads_with_norm_(trained, clip, norm)
            optimizer.step()
        else:
            self._update_on_device(optimizer, loss, norm, clip)
            self._pending.append(_copy_to_host(step, loss, norm))
        return norm

    def check_previous(self) -> None:
        """Check the step before the last. On a GPU this waits until only the last step is still running."""
        while len(self._pending) > 1:
            self._check(*self._pending.pop(0).wait())

    def check_all(self) -> None:
        """Wait for every pending step and check it; afterwards the last step is known to be good."""
        while self._pending:
            self._check(*self._pending.pop(0).wait())

    def _check(self, step: int, loss: float, norm: float) -> None:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Diverged(f"the loss became {loss} with gradient norm {norm} at step {step}")
        if self._first is None:
            self._first = loss
        if loss > EXPLODED * max(self._first, 1.0):
            raise Diverged(f"the loss exploded from {self._first:.3g} to {loss:.3g} at step {step}")
        self.known_loss = loss

    def _update_on_device(self, optimizer: Any, loss: Tensor, norm: Tensor, clip: float) -> None:
        """torch's fused optimisers read two device numbers: `grad_scale` divides the gradients, `found_inf` skips the update."""
        assert self._bad is not None
        if self._limit is None:
            self._limit = EXPLODED * loss.detach().clamp(min=1.0)
        sound = loss.isfinite() & norm.isfinite() & (loss <= self._limit)
        self._bad = torch.maximum(self._bad, (~sound).float())
        optimizer.found_inf = self._bad
        optimizer.grad_scale = (norm / clip).clamp(min=1.0).float() if clip else None
        optimizer.step()


def _reads_flags(optimizer: torch.optim.Optimizer) -> bool:
    """The sign by which torch's own GradScaler recognises such optimisers."""
    return getattr(optimizer, "_step_supports_amp_scaling", False)


def _copy_to_host(step: int, loss: Tensor, norm: Tensor) -> _Pending:
    numbers_2 = torch.empty(2, pin_memory=True)
    numbers_2.copy_(torch.stack((loss.float(), norm.float())), non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return _Pending(step, numbers_2, arrived)
