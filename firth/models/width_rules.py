"""The rules of muP (Yang et al. 2022, table 3): what initial weights and learning rates of Adam are at another width.

    W from n to m features, of which there are n₀ and m₀ at the base width, r = n / n₀:

    both grow (hidden matrices)         standard deviation ∝ r^−½     learning rate ∝ r⁻¹
    only n grows (output layers)        standard deviation ∝ r⁻¹      learning rate ∝ r⁻¹
    only m grows, or neither            as at the base width (embeddings, tables of positions, biases, gains)

A matrix cannot follow two of them at once. So where the output layer is the embedding, too, its input is divided by r: the gain
of the norm before it starts at r⁻¹ and has a learning rate ∝ r⁻¹, which is the same to Adam. No computation changes, and
saved weights need no factor. Weight decay is multiplied by r, because AdamW multiplies it by the learning rate.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firth.layers.cross_attention import CrossAttention
from firth.layers.self_attention import SelfAttention
from firth.models.config import TransformerSettings
from firth.models.network import Network
from firth.models.parametrization import STANDARD
from firth.models.roles import Role, roles_of


@dataclass(frozen=True)
class WidthRule:
    """What muP changes about a weight."""

    rate: float = 1.0  # its learning rate, divided by that of the base width
    start: float = 1.0  # by which its initial values are multiplied, after they were drawn as in a standard model of this width


def width_rules(network: Network, base: Network) -> dict[str, WidthRule]:
    """The rule of every weight, by name; `base` is the same network at the base width."""
    shapes = {name: weight.shape for name, weight in base.named_parameters()}
    roles, norm = roles_of(network), network.readout_norm
    of_readout = set() if norm is None else {id(weight) for weight in norm.parameters()}
    return {
        name: _of_gain(weight, shapes[name]) if id(weight) in of_readout else _of(weight, shapes[name], roles[weight])
        for name, weight in network.named_parameters()
    }


def _of_gain(weight: Tensor, base: torch.Size) -> WidthRule:
    factor = base.numel() / weight.numel()
    return WidthRule(rate=factor, start=factor)


def _of(weight: Tensor, base: torch.Size, role: Role) -> WidthRule:
    """A matrix is drawn with a standard deviation of n^−½, which is the rule of hidden matrices."""
    if role not in ("hidden", "output"):
        return WidthRule()
    (m, n), (base_m, base_n) = weight.shape, base
    return WidthRule(rate=base_n / n, start=1.0 if m != base_m else (base_n / n) ** 0.5)


def as_standard(network: Network, model: TransformerSettings) -> tuple[Network, TransformerSettings]:
    """The same function as a standard model, with the factor of the scores in the queries' weights."""
    network = copy.deepcopy(network)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                standard = module.score_layer.scale
                for part_nd in _queries(module):
                    part_nd.mul_(module.attend.scale / standard)
                module.attend.scale = standard
    return network, dataclasses.replace(model, parametrization=STANDARD)


def _queries(layer: SelfAttention | CrossAttention) -> Iterator[Tensor]:
    """The weights to which queries are proportional."""
    if layer.query_norm is not None:
        yield from layer.query_norm.parameters()
        return
    if isinstance(layer, CrossAttention):
        yield from layer.query.parameters()
        return
    wide = layer.heads * layer.head_width
    given = (layer.qkv.weight, layer.qkv.bias, layer.query_value_bias)
    yield from (weight[:wide] for weight in given if weight is not None)


def rate_factors(rules: Mapping[str, WidthRule]) -> dict[str, float]:
    """The learning rates that differ, divided by training.rate."""
    return {name: rule.rate for name, rule in rules.items() if rule.rate != 1.0}


def started(network: nn.Module, rules: Mapping[str, WidthRule]) -> None:
    """Multiply the weights that were just drawn by the factors of their rules."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.mul_(rules[name].start)
