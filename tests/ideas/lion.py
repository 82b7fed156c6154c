"""Lion (Chen et al. 2023): every weight moves by the same amount, in the direction of a sign."""

import torch

from firth.training.optim import Optimizer


class LionSteps(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                m, (b1, b2) = self.state[p].setdefault("mean", torch.zeros_like(p)), group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * torch.lerp(p.grad, m, b1).sign())
                m.lerp_(p.grad, 1 - b2)


class Lion(Optimizer):
    kind, label, uses = "lion", "Lion", ("betas",)
    about = "The sign of a running mean of gradients (Chen et al. 2023)."
    latex = r"\theta \leftarrow \theta - \eta \left( \mathrm{sign}(\beta_1 m + (1 - \beta_1) g) + \lambda \theta \right)"

    @staticmethod
    def make(groups, config, fused):
        return LionSteps(groups, {"lr": config.rate, "betas": config.betas, "weight_decay": 0.0})
