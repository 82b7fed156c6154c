"""Schedule-free AdamW (Defazio et al. 2024, "The Road Less Scheduled", algorithm 1): a running mean of the weights takes the
place of a decaying rate.

    y_t = (1 − β₁) z_t + β₁ x_t                         gradients g_t are those at y_t
    z_{t+1} = z_t − η_t (g_t / (√v̂_t + ε) + λ y_t)      v̂_t: AdamW's
    x_{t+1} = (1 − c_t) x_t + c_t z_{t+1}               c_t = m_t² / Σ_{s ≤ t} m_s²,   m_t = max_{s ≤ t} η_s

x is validated and saved. The model holds y, and the optimiser z; x follows from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from firth.training.average import Average, trained

# what all weights of a group share, at step 0: t, m and Σ m²
_BEGINNING: Mapping[str, float] = {"step": 0, "largest_rate": 0.0, "weight_sum": 0.0}


class ScheduleFreeSteps(torch.optim.Optimizer):
    """The updates of y and z."""

    def __init__(self, groups: Iterable[dict[str, Any]], *, lr: float, betas: tuple[float, float], eps: float = 1e-8) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, **_BEGINNING})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            self._update(group, [weight for weight in group["params"] if weight.grad is not None])
        return loss

    def _update(self, group: dict[str, Any], y: list[Tensor]) -> None:
        (beta1, beta2), rate = group["betas"], group["lr"]
        group["step"] += 1
        group["largest_rate"] = max(rate, group["largest_rate"])
        group["weight_sum"] += group["largest_rate"] ** 2
        share = group["largest_rate"] ** 2 / group["weight_sum"]
        if not y:
            return
        z, v = [self._state(weight)["z"] for weight in y], [self._state(weight)["exp_avg_sq"] for weight in y]
        gradient = [weight.grad for weight in y if weight.grad is not None]
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, gradient, gradient, value=1 - beta2)
        root = torch._foreach_div(v, 1 - beta2 ** group["step"])
        torch._foreach_sqrt_(root)
        torch._foreach_add_(root, group["eps"])
        direction = torch._foreach_div(gradient, root)
        if group["weight_decay"]:
            torch._foreach_add_(direction, y, alpha=group["weight_decay"])
        # y_{t+1}, with x_t and x_{t+1} put in as they follow from y and z
        torch._foreach_lerp_(y, z, share)
        torch._foreach_add_(y, direction, alpha=rate * (beta1 * (1 - share) - 1))
        torch._foreach_sub_(z, direction, alpha=rate)

    def _state(self, weight: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weight]
        if not state:
            state |= {"z": weight.detach().clone(), "exp_avg_sq": torch.zeros_like(weight, requires_grad=False)}
        return state


class ScheduleFreeAverage(Average):
    """x = y + (1 − 1/β₁) (z − y), computed when it is needed."""

    def __init__(self, model: nn.Module, optimizer: ScheduleFreeSteps) -> None:
        self._trained, self._optimizer = trained(model), optimizer

    @property
    def weights(self) -> dict[str, Tensor]:
        state, share = self._optimizer.state, 1 - 1 / self._optimizer.defaults["betas"][0]
        return {
            name: torch.lerp(weight.detach(), state[weight]["z"], share)
            for name, weight in self._trained.items()
            if "z" in state.get(weight, {})
        }

    def update(self, step: int) -> None:
        """The optimiser has done it."""

    def facts(self) -> dict[str, Any]:
        return {"groups": [{name: group[name] for name in _BEGINNING} for group in self._optimizer.param_groups]}

    def load(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        for group, own in zip(self._optimizer.param_groups, facts["groups"], strict=True):
            group.update({name: own[name] for name in _BEGINNING})
