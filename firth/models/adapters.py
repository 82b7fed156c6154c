"""LoRA adapters: the matrices of a network that they adapt, by role; training and merging them.

A network is adapted in place: a Linear becomes a LoraLinear, whose `weight` and `bias` keep their names, so that weights load and
save as before and the adapters stand beside them as `….lora.query.a` and `….lora.query.b`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.cross_attention import CrossAttention
from firth.layers.feedforward import FeedForward
from firth.layers.linear_attention.layers import GatedLinearAttention, LinearAttention
from firth.layers.lora import LoraLinear, LowRank, ProjectionRows, Target
from firth.layers.self_attention import SelfAttention

TARGETS: tuple[Target, ...] = get_args(Target)
Spans = dict[Target, tuple[int, int]]  # the rows of each projection: first and last, exclusive


@dataclass(frozen=True)
class Lora:
    rank: int
    alpha: float
    dropout: float
    targets: tuple[Target, ...]


def projections(module: nn.Module) -> Iterator[tuple[str, Spans]]:
    """The matrices of a layer, by the name of the attribute, and the projections that each of them holds."""
    match module:
        case LinearAttention() | GatedLinearAttention():
            keys, values = module.heads * module.key_width, module.heads * module.head_width
            name = "qkvr" if isinstance(module, GatedLinearAttention) else "qkv"
            yield name, _spans(("query", "key", "value"), (keys, keys, values))
            yield "out", _whole(module.out, "output")
        case SelfAttention():
            wide = module.heads * module.head_width
            narrow = (len(module.qkv.weight) - wide) // 2
            yield "qkv", _spans(("query", "key", "value"), (wide, narrow, narrow))
            yield "out", _whole(module.out, "output")
        case CrossAttention():
            half = len(module.kv.weight) // 2
            yield "query", _whole(module.query, "query")
            yield "kv", _spans(("key", "value"), (half, half))
            yield "out", _whole(module.out, "output")
        case FeedForward():
            inner = module.down.weight.shape[1]
            gated = len(module.up.weight) == 2 * inner
            yield "up", _spans(("gate", "up"), (inner, inner)) if gated else _whole(module.up, "up")
            yield "down", _whole(module.down, "down")
        case _:
            pass


def _spans(roles: tuple[Target, ...], sizes: tuple[int, ...]) -> Spans:
    spans: Spans = {}
    first = 0
    for role, size in zip(roles, sizes, strict=True):
        spans[role] = (first, first + size)
        first += size
    return spans


def _whole(linear: nn.Module, role: Target) -> Spans:
    return {role: (0, len(linear.get_parameter("weight")))}


def adaptable(network: nn.Module) -> dict[str, Spans]:
    """Every matrix that can be adapted, by its path, and its projections."""
    return {
        f"{path}.{name}" if path else name: spans
        for path, module in network.named_modules()
        for name, spans in projections(module)
    }


def adapt(network: nn.Module, lora: Lora, generator: torch.Generator) -> None:
    """Add an adapter of rank `lora.rank` to every projection whose role is one of `lora.targets`, in every layer."""
    adapted_roles: set[Target] = set()
    for path, spans in adaptable(network).items():
        chosen = {role: span for role, span in spans.items() if role in lora.targets}
        adapted_roles |= chosen.keys()
        if chosen:
            scale = lora.alpha / lora.rank
            parts = {role: (lora.rank, ProjectionRows(*span, scale)) for role, span in chosen.items()}
            for _, part in insert(network, path, parts, lora.dropout).parts():
                if not part.a.is_meta:
                    part.draw(generator)
    if missing := [role for role in lora.targets if role not in adapted_roles]:
        raise ConfigError(
            f'training.lora_targets has "{missing[0]}", but no layer of this model has such a matrix. '
            f"Choose among {', '.join(_roles(network)) or 'the matrices of a Transformer'}."
        )


def _roles(network: nn.Module) -> list[str]:
    there = {role for spans in adaptable(network).values() for role in spans}
    return [role for role in TARGETS if role in there]


def insert(network: nn.Module, path: str, parts: Mapping[Target, tuple[int, ProjectionRows]], dropout: float = 0.0) -> LoraLinear:
    """Give the matrix at `path` an adapter of that rank in each of those rows; B is zero, A not yet drawn."""
    parent, _, name = path.rpartition(".")
    frozen = network.get_submodule(path)
    weight = frozen.get_parameter("weight")
    made = {role: LowRank(weight.shape[1], rank, rows, weight) for role, (rank, rows) in parts.items()}
    adapted = LoraLinear(frozen, made, dropout)  # type: ignore[arg-type]  # a Linear, or a LoraLinear that is replaced
    setattr(network.get_submodule(parent), name, adapted)
    return adapted


def freeze(network: nn.Module, trained: Collection[str] = ()) -> None:
    """Train only the adapters and the parameters of those names."""
    adapters = _adapter_names(network)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name in trained or name in adapters)


def adapted(network: nn.Module) -> dict[str, LoraLinear]:
    """The adapted matrices, by their paths."""
    return {path: module for path, module in network.named_modules() if isinstance(module, LoraLinear)}


def _adapter_names(network: nn.Module) -> set[str]:
    return {f"{path}.lora.{name}" for path, one in adapted(network).items() for name, _ in one.lora.named_parameters()}


def trained_names(network: nn.Module) -> list[str]:
    """The parameters that are trained besides the adapters: those that a network does not share with the one it starts from."""
    adapters = _adapter_names(network)
    return [name for name, one in network.named_parameters() if one.requires_grad and name not in adapters]


def trained_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def base_weights(network: nn.Module) -> dict[str, Tensor]:
    """All weights but the adapters'."""
    adapters = _adapter_names(network)
    return {name: tensor for name, tensor in network.state_dict().items() if name not in adapters}


# Merging. It works on named tensors, so that it needs no network: facts() tells what it has to know.


def facts(network: nn.Module) -> str:
    """The rows of the matrix that each adapter corrects, and its factor, as JSON; "" if nothing is adapted."""
    rows_of = {path: {role: list(part.rows) for role, part in one.parts()} for path, one in adapted(network).items()}
    return json.dumps(rows_of) if rows_of else ""


def merge(tensors: Mapping[str, Tensor], told: str) -> dict[str, Tensor]:
    """W ← W + (α / r) B A for every adapter; the result has the names of a network without adapters."""
    result = dict(tensors)
    for path, parts in json.loads(told or "{}").items():
        weight_nd = result[f"{path}.weight"].clone()
        for role, (first, last, scale) in parts.items():
            a_rd, b_mr = (result.pop(f"{path}.lora.{role}.{letter}") for letter in "ab")
            weight_nd[first:last] += scale * (b_mr @ a_rd)
        result[f"{path}.weight"] = weight_nd
    return result


def merged_weights(network: nn.Module) -> dict[str, Tensor]:
    with torch.no_grad():
        return merge(network.state_dict(), facts(network))
