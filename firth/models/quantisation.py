"""Quantise the matrices of a network for decoding, and count the bytes that remain.

Quantised are the projections of attention, the feed-forward layers, the matrices of recurrent layers, and the output layer over
the vocabulary. That one is in int8 even if the others are in int4, where it loses more than they do. Embeddings, norms and biases
stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from torch import nn

from firth.errors import ConfigError
from firth.figures.counting import in_bytes
from firth.layers.attentive_recurrence import AttentiveRecurrent
from firth.layers.quantised import Quantisation, QuantisedLinear, quantised
from firth.layers.recurrent import Cell
from firth.models.adapters import adaptable, adapted
from firth.models.decoder import Decoder
from firth.models.network import Network


@dataclass(frozen=True)
class Quantised:
    """The record of how a network was quantised."""

    kind: Quantisation
    matrices: int
    bytes: int  # of all weights that are held now
    bytes_before: int

    def __str__(self) -> str:
        share = self.bytes / self.bytes_before
        return f"{self.kind}: {self.matrices} matrices quantised; {in_bytes(self.bytes)} of weights, {share:.0%} of before"


def quantise(network: Network, kind: Quantisation) -> Quantised:
    """Quantise a network in place, on the device where it is. It can then no longer be trained, moved or saved."""
    check_kind(kind)
    if reason := why_not(network):
        raise ConfigError(f"this model cannot be quantised: {reason}. Load it without quantise.")
    before, paths = held_bytes(network), list(adaptable(network))
    network.requires_grad_(False)
    for path in paths:
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, quantised(network.get_submodule(path), kind))  # type: ignore[arg-type]
    for cell in _cells(network):
        cell.quantise(kind)
    if isinstance(network, Decoder):
        network.quantise_output()
    matrices = {id(module) for module in network.modules() if isinstance(module, QuantisedLinear)}
    return Quantised(kind, len(matrices), held_bytes(network), before)


def check_kind(kind: str) -> None:
    if kind not in get_args(Quantisation):
        raise ConfigError(f'quantise is "{kind}"; choose int8 or int4.')


def why_not(network: Network) -> str | None:
    if is_quantised(network):
        return "it is quantised already"
    if any(isinstance(module, AttentiveRecurrent) for module in network.modules()):
        return "a layer that attends before each step, as RNNsearch does, multiplies with parts of a matrix"
    if reasons := [reason for cell in _cells(network) if (reason := cell.why_not_quantised())]:
        return reasons[0]
    if adapted(network):
        return "it has LoRA adapters that are not merged"
    if not adaptable(network) and not _cells(network):
        return "it has no recurrent, attention or feed-forward layers"
    return None


def _cells(network: nn.Module) -> list[Cell]:
    return [module for module in network.modules() if isinstance(module, Cell)]


def is_quantised(network: nn.Module) -> bool:
    return any(isinstance(module, QuantisedLinear) for module in network.modules())


def held_bytes(network: nn.Module) -> int:
    """The bytes of all parameters and buffers, those that are shared once."""
    tensors = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
