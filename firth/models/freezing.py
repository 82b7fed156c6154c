"""Freeze parts of a network by name: their weights keep the values they start with, and the optimiser does not know them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from firth.errors import ConfigError, did_you_mean
from firth.models.network import Network

_SHOWN = 12  # names in a message


def freeze_parts(network: Network, names: Sequence[str]) -> str:
    """Freeze the modules and weights of those names, each with everything in it; "embedding" also stands for the embedding of the
    input tokens, wherever it is. Returns a sentence that lists the frozen parts."""
    for name in names:
        for weight in _weights(network, name):
            weight.requires_grad_(False)
    counts = [weight.numel() for weight in network.parameters() if not weight.requires_grad]
    total = sum(weight.numel() for weight in network.parameters())
    if sum(counts) == total:
        raise ConfigError(f"training.freeze is {list(names)}, which leaves nothing to train. Remove a name.")
    return f"{sum(counts):,} of {total:,} parameters are frozen ({', '.join(names)})"


def _weights(network: Network, name: str) -> list[nn.Parameter]:
    weights = [weight for path, weight in network.named_parameters() if path == name or path.startswith(f"{name}.")]
    if not weights and name == "embedding":
        weights = list(network.source_embedding.parameters())
    if not weights:
        known = _parts(network)
        top = [path for path in known if path.count(".") < 2]
        more = ", …" if len(top) > _SHOWN else ""
        raise ConfigError(
            f'training.freeze has "{name}", but this model has no such part. Choose among {", ".join(top[:_SHOWN])}{more}.'
            + _near(name, known)
        )
    return weights


def _near(name: str, known: Sequence[str]) -> str:
    near = did_you_mean(name, known)
    return near if "Did you mean" in near else ""


def _parts(network: Network) -> list[str]:
    """The modules and weights that can be named, outer ones first."""
    modules = [path for path, module in network.named_modules() if path and next(module.parameters(), None) is not None]
    single = [path for path, _ in network.named_parameters() if "." not in path]
    return sorted({*modules, *single, "embedding"}, key=lambda path: (path.count("."), path))
