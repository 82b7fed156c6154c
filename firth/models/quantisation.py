"""Which matrices of a network are quantised for decoding, and how many bytes that leaves.

Quantised are the projections of attention, the feed-forward layers, and the output layer over the vocabulary. That one is in
int8 even if the others are in int4, where it loses more than they do. Embeddings, norms and biases stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from torch import nn

from firth.errors import ConfigError
from firth.layers.quantised import Quantisation, QuantisedLinear, quantised
from firth.layers.recurrent import Recurrent
from firth.models.adapters import adaptable, adapted
from firth.models.decoder import Decoder
from firth.models.network import Network


@dataclass(frozen=True)
class Quantised:
    """What was done to a network."""

    kind: Quantisation
    matrices: int
    bytes: int  # of all weights that are held now
    bytes_before: int

    def __str__(self) -> str:
        share = self.bytes / self.bytes_before
        return f"{self.kind}: {self.matrices} matrices quantised; {_megabytes(self.bytes)} of weights, {share:.0%} of before"


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
    if isinstance(network, Decoder):
        network.quantise_output()
    return Quantised(kind, len(paths) + isinstance(network, Decoder), held_bytes(network), before)


def check_kind(kind: str) -> None:
    if kind not in get_args(Quantisation):
        raise ConfigError(f'quantise is "{kind}"; choose int8 or int4.')


def why_not(network: Network) -> str | None:
    if is_quantised(network):
        return "it already is"
    if any(isinstance(module, Recurrent) for module in network.modules()):
        return "it has recurrent layers, and the fused kernels of RNNs take weights in floating point only"
    if adapted(network):
        return "it has LoRA adapters that are not merged"
    if not adaptable(network):
        return "it has no attention or feed-forward layers"
    return None


def is_quantised(network: nn.Module) -> bool:
    return any(isinstance(module, QuantisedLinear) for module in network.modules())


def held_bytes(network: nn.Module) -> int:
    """Of all parameters and buffers, those that are shared once."""
    tensors = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
