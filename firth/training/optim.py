"""Optimisers; weight decay applies to matrices only. To add one, write a class with `make` and add it to OPTIMIZERS."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import torch
from torch import nn

from firth.ideas import Idea, Ideas


class OptimizerSettings(Protocol):
    """The settings of [training] that optimisers use."""

    @property
    def optimizer(self) -> str: ...
    @property
    def rate(self) -> float: ...
    @property
    def betas(self) -> tuple[float, ...]: ...
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


Groups = Sequence[dict[str, Any]]  # parameters with their weight decay, as torch's optimisers take them


class Optimizer(Idea, ABC):
    """The rule by which weights are updated. `uses` names the settings of [training] that only some optimisers have."""

    @staticmethod
    @abstractmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        """`fused`: every weight is on a CPU or a CUDA device, where torch can update all of them in one pass over memory."""


class AdamW(Optimizer):
    kind = "adamw"
    label = "AdamW"
    about = "Adam with decoupled weight decay (Loshchilov & Hutter 2019)."
    latex = r"\theta \leftarrow \theta - \eta \left( \frac{\hat m}{\sqrt{\hat v} + \epsilon} + \lambda \theta \right)"
    uses = ("betas",)

    @staticmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        return torch.optim.AdamW(groups, lr=config.rate, betas=(config.betas[0], config.betas[1]), fused=fused)


class SGD(Optimizer):
    kind = "sgd"
    label = "SGD"
    about = "Stochastic gradient descent, with momentum if it is set."
    latex = r"v \leftarrow \mu v + g, \quad \theta \leftarrow \theta - \eta v"
    uses = ("momentum",)

    @staticmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum, fused=fused)


OPTIMIZERS: Ideas[type[Optimizer]] = Ideas("optimiser", Optimizer, (AdamW, SGD))
OptimizerKind = Annotated[str, OPTIMIZERS]


def optimizer_for(model: nn.Module, config: OptimizerSettings) -> torch.optim.Optimizer:
    """Vectors (biases, norm gains) are exempt from weight decay; frozen weights are left out."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2 or config.weight_decay == 0]  # without decay, one group is faster
    vectors = [p for p in trained if p.ndim < 2 and config.weight_decay > 0]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cpu", "cuda") for p in trained)  # one pass over memory instead of ten
    return OPTIMIZERS[config.optimizer].make([group for group in groups if group["params"]], config, fused)
