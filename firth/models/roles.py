"""What each weight of a network is to an optimiser. Some update matrices of hidden layers in another way than the rest, and rates
that carry over to other widths depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from torch import Tensor, nn

from firth.layers.lora import LowRank
from firth.layers.recurrent import Cell

# "hidden": a matrix between features of the model, the stacked ones of a product (queries, keys and values; gates) included
# "embedding": rows that are looked up; also where the output layer shares them
# "output": the matrix that gives logits, one row per token, class or tag
# "vector": biases and gains
# "other": tables of positions, parameters of scores, transitions of a CRF, convolutions
Role = Literal["hidden", "embedding", "output", "vector", "other"]


def roles_of(network: nn.Module) -> dict[nn.Parameter, Role]:
    """The role of every parameter, in the order of `network.parameters()`."""
    known = {id(weight): role for module in network.modules() for weight, role in _of_module(module)}
    first, last = ({id(weight) for weight in _weights(network, name)} for name in ("embedding", "output"))
    return {weight: _role(weight, known.get(id(weight), "other"), first, last) for weight in network.parameters()}


def _role(weight: nn.Parameter, known: Role, first: set[int], last: set[int]) -> Role:
    if weight.ndim < 2:
        return "vector"
    if id(weight) in first:
        return "embedding"
    return "output" if id(weight) in last else known


def _of_module(module: nn.Module) -> Iterator[tuple[Tensor, Role]]:
    match module:
        case nn.Embedding():
            yield module.weight, "embedding"
        case nn.Linear() | Cell() | LowRank():
            yield from ((weight, "hidden") for weight in module.parameters(recurse=False) if weight.ndim == 2)
        case _:
            pass


def _weights(network: nn.Module, name: str) -> Iterator[Tensor]:
    """The weights of the layers of that name; the input of a network that reads points is a linear layer."""
    for module in network.modules():
        if isinstance(layer := module._modules.get(name), nn.Linear | nn.Embedding):
            yield layer.weight
