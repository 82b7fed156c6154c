"""Optimisers; weight decay applies to matrices only."""

from __future__ import annotations

import torch
from torch import nn

from firth.training.config import TrainingConfig


def optimizer_for(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019) or SGD. Vectors (biases, norm gains) are exempt from weight decay.

    Frozen weights are left out."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2 or config.weight_decay == 0]  # without decay, one group is faster
    vectors = [p for p in trained if p.ndim < 2 and config.weight_decay > 0]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    fused = all(p.device.type in ("cpu", "cuda") for p in trained)  # one pass over memory instead of ten
    match config.optimizer:
        case "adamw":
            return torch.optim.AdamW(groups, lr=config.rate, betas=(config.betas[0], config.betas[1]), fused=fused)
        case "sgd":
            return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum, fused=fused)
