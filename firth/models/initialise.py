"""Initial weights, drawn from an explicit generator in the order of the parameters' names: a seed determines the model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from firth.layers.block import Block
from firth.layers.cross_attention import CrossAttention
from firth.layers.feedforward import FeedForward
from firth.layers.token_mixer import TokenMixer
from firth.models.network import Network
from firth.models.width_rules import rate_factors, started, width_rules


@runtime_checkable
class DrawsItself(Protocol):
    """A module that knows the initial values of its own parameters: scores, positions and recurrent cells (firth/layers)."""

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None: ...


def initialise(model: Network, generator: torch.Generator, base: Network | None = None) -> None:
    """Draw every parameter of `model` in place. With muP, `base` is the same network at the base width, without values; `model`
    then also learns the rates of its weights."""
    embedding_std = model.embedding_std if base is None else base.embedding_std
    drawn: set[int] = set()
    with torch.no_grad():
        for name, module in sorted(model.named_modules()):
            for parameter_name, parameter in sorted(module.named_parameters(recurse=False)):
                if id(parameter) not in drawn:
                    drawn.add(id(parameter))
                    _draw(name, module, parameter_name, parameter, _written(model, name), embedding_std, generator)
    if base is not None:
        rules = width_rules(model, base)
        started(model, rules)
        model.rate_factors = rate_factors(rules)


def _written(model: nn.Module, path: str) -> int:
    """The number of layers that add to the residual stream, if `path` is the last product of one of them; otherwise 1."""
    if not path.endswith(("attention.out", "cross.out", "feedforward.down")):
        return 1
    blocks = model.get_submodule(path[: path.index("blocks") + len("blocks")])
    return sum(block.config.layers * _adding(block) for block in blocks.children() if isinstance(block, Block))


def _adding(block: Block) -> int:
    return sum(isinstance(part, TokenMixer | CrossAttention | FeedForward) for part in block.modules())


def _draw(
    path: str, module: nn.Module, name: str, parameter: Tensor, written: int, embedding_std: float, generator: torch.Generator
) -> None:
    match module:
        case DrawsItself():
            module.draw(name, parameter, generator, embedding_std)
        case nn.LayerNorm() | nn.RMSNorm():
            parameter.fill_(1.0 if name == "weight" else 0.0)
        case nn.Linear() if name == "weight":
            # The products that write to the residual stream shrink with depth, so that its variance does not grow
            # (Radford et al. 2019, §2.3).
            parameter.normal_(0.0, module.in_features**-0.5 * written**-0.5, generator=generator)
        case nn.Conv2d() if name == "weight":
            # A ReLU follows, which halves the variance (He et al. 2015, eq. 10).
            parameter.normal_(0.0, (2 / parameter[0].numel()) ** 0.5, generator=generator)
        case nn.Embedding():
            parameter.normal_(0.0, embedding_std, generator=generator)
        case _:
            parameter.zero_()  # biases
