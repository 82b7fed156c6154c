"""Optimisers; weight decay applies to matrices only. To add one, write a class with `make` and add it to OPTIMIZERS."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol

import torch
from torch import nn

from firth.ideas import Idea, Ideas
from firth.models.roles import Role, roles_of
from firth.training.average import Average, TriggeredAverage, WeightAverage
from firth.training.combined_optimizer import CombinedOptimizer
from firth.training.schedule_free import ScheduleFreeAverage, ScheduleFreeSteps

MuonAdjust = Literal["match_rms_adamw", "original"]


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
    @property
    def average(self) -> float: ...
    @property
    def nonmonotone_interval(self) -> int: ...
    @property
    def muon_momentum(self) -> float: ...
    @property
    def muon_nesterov(self) -> bool: ...
    @property
    def muon_iterations(self) -> int: ...
    @property
    def muon_adjust(self) -> MuonAdjust: ...
    @property
    def muon_rate_ratio(self) -> float: ...


# As torch's optimisers take them: "params", "weight_decay", and "role", that of these weights if the optimiser tells it apart and
# None for all others. A "rate_factor" that an optimiser adds multiplies the learning rate of that group.
Groups = Sequence[dict[str, Any]]


class Optimizer(Idea, ABC):
    """The rule by which weights are updated. `uses` names the settings of [training] that only some optimisers have."""

    tells_apart: ClassVar[tuple[Role, ...]] = ()  # roles whose weights are in groups of their own (firth/models/roles.py)
    averages: ClassVar[bool] = False  # whether it has an `average` of its own, so that training.average does not apply
    needs_validation: ClassVar[bool] = False  # whether it depends on the validation loss
    needs_constant_rate: ClassVar[bool] = False  # whether a schedule that decays contradicts it
    follows_widths: ClassVar[bool] = False  # whether the learning rates of muP are made for it (firth/models/width_rules.py)

    @staticmethod
    @abstractmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        """`fused`: every weight is on a CPU or a CUDA device, where torch can update all of them in one pass over memory."""

    @staticmethod
    def average(model: nn.Module, optimizer: torch.optim.Optimizer, config: OptimizerSettings) -> Average | None:
        """What is validated and saved in place of the weights that are trained; None: nothing but training.average."""
        return WeightAverage(model, config.average) if config.average else None


class AdamW(Optimizer):
    kind = "adamw"
    label = "AdamW"
    about = "Adam with decoupled weight decay (Loshchilov & Hutter 2019)."
    latex = r"\theta \leftarrow \theta - \eta \left( \frac{\hat m}{\sqrt{\hat v} + \epsilon} + \lambda \theta \right)"
    uses = ("betas",)
    follows_widths = True

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
        # torch has no fused form for parts of weights (FSDP)
        parts = any(hasattr(weight, "full_tensor") for group in groups for weight in group["params"])
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum, fused=fused and not parts)


class TriggeredASGD(Optimizer):
    kind = "nt-asgd"
    label = "NT-ASGD"
    about = "SGD whose weights are averaged once the validation loss stops improving (Merity et al. 2018)."
    latex = r"w_{t+1} = w_t - \eta g_t, \quad \bar w = \frac{w_T + \dots + w_t}{t - T + 1}, \quad v_T > \min_{l < T - n} v_l"
    uses = ("nonmonotone_interval",)
    averages = True
    needs_validation = True

    @staticmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        return SGD.make(groups, config, fused)  # its momentum does not apply, and is 0

    @staticmethod
    def average(model: nn.Module, optimizer: torch.optim.Optimizer, config: OptimizerSettings) -> Average:
        return TriggeredAverage(model, config.nonmonotone_interval)


class Muon(Optimizer):
    kind = "muon"
    label = "Muon"
    about = "Hidden matrices move by an orthogonal matrix near their mean gradient (Jordan et al. 2024); AdamW updates the rest."
    latex = r"W \leftarrow W - \eta \left( s \, U V^\top + \lambda W \right), \quad U S V^\top = \mu m + (1 - \mu) g"
    uses = ("betas", "muon_momentum", "muon_nesterov", "muon_iterations", "muon_adjust", "muon_rate_ratio")
    tells_apart = ("hidden",)

    @staticmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        hidden = [{**group, "rate_factor": config.muon_rate_ratio} for group in groups if group["role"] == "hidden"]
        others = [group for group in groups if group["role"] != "hidden"]
        parts = [_muon(hidden, config)] if hidden else []
        return CombinedOptimizer(*parts, *([AdamW.make(others, config, fused)] if others else []))


def _muon(groups: Groups, config: OptimizerSettings) -> torch.optim.Optimizer:
    return torch.optim.Muon(
        groups,
        lr=config.rate,
        momentum=config.muon_momentum,
        nesterov=config.muon_nesterov,
        ns_steps=config.muon_iterations,
        adjust_lr_fn=config.muon_adjust,
    )


class ScheduleFreeAdamW(Optimizer):
    kind = "schedule-free"
    label = "schedule-free AdamW"
    about = "AdamW with a mean of the weights in place of a decaying rate (Defazio et al. 2024); for a constant schedule."
    latex = (
        r"y = (1 - \beta_1) z + \beta_1 x, \quad z \leftarrow z - \eta \left( \frac{g(y)}{\sqrt{\hat v} + \epsilon} + \lambda y "
        r"\right), \quad x \leftarrow x + \frac{\eta^2}{\sum \eta^2} (z - x)"
    )
    uses = ("betas",)
    averages = True
    needs_constant_rate = True
    follows_widths = True

    @staticmethod
    def make(groups: Groups, config: OptimizerSettings, fused: bool) -> torch.optim.Optimizer:
        return ScheduleFreeSteps(groups, lr=config.rate, betas=(config.betas[0], config.betas[1]))

    @staticmethod
    def average(model: nn.Module, optimizer: torch.optim.Optimizer, config: OptimizerSettings) -> Average:
        assert isinstance(optimizer, ScheduleFreeSteps)
        return ScheduleFreeAverage(model, optimizer)


OPTIMIZERS: Ideas[type[Optimizer]] = Ideas("optimiser", Optimizer, (AdamW, SGD, TriggeredASGD, Muon, ScheduleFreeAdamW))
OptimizerKind = Annotated[str, OPTIMIZERS]


def optimizer_for(model: nn.Module, config: OptimizerSettings) -> torch.optim.Optimizer:
    """Vectors (biases, norm gains) are exempt from weight decay; frozen weights are left out."""
    kind = OPTIMIZERS[config.optimizer]
    groups = groups_of(model, config.weight_decay, kind.tells_apart)
    trained = [weight for group in groups for weight in group["params"]]
    fused = all(weight.device.type in ("cpu", "cuda") for weight in trained)  # one pass over memory instead of ten
    return kind.make(groups, config, fused)


def groups_of(model: nn.Module, weight_decay: float, apart: Sequence[Role]) -> Groups:
    """The trained weights, in as few groups as possible: fewer are faster."""
    found: dict[tuple[float, Role | None, float], list[nn.Parameter]] = {}
    factors = getattr(model, "rate_factors", {})
    factor_of = {weight: factors.get(name, 1.0) for name, weight in model.named_parameters()}
    for weight, role in roles_of(model).items():
        if weight.requires_grad:
            factor = factor_of[weight]  # AdamW multiplies the decay by the rate
            own = weight_decay / factor if weight.ndim >= 2 else 0.0
            found.setdefault((own, role if role in apart else None, factor), []).append(weight)
    # matrices first: the norm of all is a sum in this order
    ordered = sorted(found, key=lambda key: (-key[0], key[1] is None, key[2]))
    return [_group(found[key], *key) for key in ordered]


def _group(weights: list[nn.Parameter], decay: float, role: Role | None, factor: float) -> dict[str, Any]:
    own = {} if factor == 1.0 else {"rate_factor": factor}
    return {"params": weights, "weight_decay": decay, "role": role, **own}
