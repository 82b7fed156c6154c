"""Adapters in the format of the package `peft`: adapter_config.json and adapter_model.safetensors.

A module there is a slot here: a matrix, and the projections in it that the module computes. So `c_attn` of GPT-2 is
Slot("blocks.0.attention.qkv", ("query", "key", "value")), and `q_proj` of LLaMA is Slot("blocks.0.attention.qkv", ("query",)).
Where one module there holds several projections, their adapters here become one there, of the sum of their ranks:

    A = A_1 … A_P stacked,   B block-diagonal

Letters: m rows of a module there, d columns, r rank.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from firth import files
from firth.errors import DataError
from firth.layers.lora import LoraLinear, ProjectionRows, Target
from firth.models.adapters import adaptable, adapted, insert, trained_names

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
# Keys of adapter_config.json that say how an adapter was made, or what its tensors say as well.
_NEUTRAL = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "eva_config", "exclude_modules", "fan_in_fan_out",
        "inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout", "megatron_core",
        "modules_to_save", "peft_type", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision", "target_modules",
        "task_type", "velora_config",
    }
)  # fmt: skip
_READ = frozenset({"alpha_pattern", "lora_alpha", "use_rslora"})
# Keys with the values that change nothing. Other ways to begin, such as "pissa", change the weights that are adapted, too.
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal"),
}
_PLAIN_PATTERN = re.compile(r"(?:[\w.\-^$|\\\[\]()]|(?<!\))[*+?])*")  # no repeated group, whose matching may take forever
_REPEATS = 3  # in a pattern, at most, for the same reason


@dataclass(frozen=True)
class Slot:
    module: str  # path of a module here
    roles: tuple[Target, ...] = ()  # the projections in it; none: the whole module, which is trained without an adapter


Table = Mapping[str, Slot]  # the module's name there → what it is here


def own_names(network: nn.Module) -> dict[str, Slot]:
    """The table without another family: every projection is a module of its own, as blocks.0.attention.query."""
    modules = {name.rpartition(".")[0] for name in trained_names(network)}
    slots = {name: Slot(name) for name in sorted(modules)}
    for path, spans in adaptable(network).items():
        parent = path.rpartition(".")[0]
        slots |= {_path(parent, role): Slot(path, (role,)) for role in spans}
    return slots


def save_adapter(
    network: nn.Module, folder: Path, table: Table | None = None, base: str | None = None, *, transposed: bool = False
) -> None:
    """Write the adapters of a network, and its other trained modules, under the names of `table`. `base` is what they adapt;
    `transposed`: it keeps matrices the other way round, as GPT-2 does there. (The adapters are the same.)"""
    table = own_names(network) if table is None else table
    adapters = adapted(network)
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    whole: list[str] = []
    written: set[tuple[str, str]] = set()
    for name, slot in table.items():
        if not slot.roles:
            own = _trained_tensors(network, slot.module)
            tensors |= {_PREFIX + _path(name, key): tensor for key, tensor in own.items()}
            whole += [name] if own else []
        elif (one := adapters.get(slot.module)) is not None and (factors := _joined(one, slot, _rows_of(network, slot))):
            a_rd, b_mr, scale = factors
            tensors |= {f"{_PREFIX}{name}.lora_A.weight": a_rd, f"{_PREFIX}{name}.lora_B.weight": b_mr}
            ranks[name], alphas[name] = len(a_rd), scale * len(a_rd)
            written |= {(slot.module, role) for role in slot.roles}
    _expect_all(adapters, written)
    rank, alpha = _most_common(ranks), _most_common(alphas)
    config = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": next((one.dropout for one in adapters.values()), 0.0),
        "fan_in_fan_out": transposed,
        "bias": "none",
        "target_modules": sorted(ranks),
        "modules_to_save": sorted(whole) or None,
        "rank_pattern": {name: value for name, value in ranks.items() if value != rank},
        "alpha_pattern": {name: value for name, value in alphas.items() if value != alpha},
    }
    files.save_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    files.write_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")


def _rows_of(network: nn.Module, slot: Slot) -> list[tuple[int, int]]:
    """The rows of each of the slot's projections in its matrix."""
    spans = adaptable(network).get(slot.module, {})
    if missing := [role for role in slot.roles if role not in spans]:
        raise DataError(f"{slot.module} has no {missing[0]} projection. Correct the table of names.")
    return [spans[role] for role in slot.roles]


def _joined(one: LoraLinear, slot: Slot, rows: list[tuple[int, int]]) -> tuple[Tensor, Tensor, float] | None:
    """A, B and the factor of the slot's adapters as one; B has the rows of all projections of the slot."""
    parts, a, b, scale = dict(one.parts()), [], [], None
    total, before = sum(last - first for first, last in rows), 0
    for role, (first, last) in zip(slot.roles, rows, strict=True):
        if (part := parts.get(role)) is not None:
            scale = scale or part.rows.scale
            b_mr = part.b.new_zeros(total, part.b.shape[1])
            b_mr[before : before + last - first] = part.b.detach() * (part.rows.scale / scale)
            a.append(part.a.detach())
            b.append(b_mr)
        before += last - first
    return None if scale is None else (torch.cat(a), torch.cat(b, dim=1), scale)


def _trained_tensors(network: nn.Module, module: str) -> dict[str, Tensor]:
    trained = set(trained_names(network))
    own = network.get_submodule(module).named_parameters(recurse=False)
    return {key: one.detach() for key, one in own if _path(module, key) in trained}


def _path(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def _expect_all(adapters: Mapping[str, LoraLinear], written: set[tuple[str, str]]) -> None:
    lost = [f"{path} ({role})" for path, one in adapters.items() for role, _ in one.parts() if (path, role) not in written]
    if lost:
        raise DataError(f"the table of names has no place for {len(lost)} adapters, the first of {lost[0]}. Complete the table.")


def _most_common(values: Mapping[str, Any]) -> Any:
    return Counter(values.values()).most_common(1)[0][0] if values else 8


def load_adapter(network: nn.Module, folder: Path, table: Table | None = None) -> None:
    """Add the adapters in `folder`, which `peft` or firth saved, to a network. Every tensor must have its place."""
    table = own_names(network) if table is None else table
    config, tensors = _read(folder)
    factors = {name: _scale(config, name, len(tensors[f"{name}.lora_A.weight"])) for name in _modules(tensors)}
    for path in dict.fromkeys(slot.module for slot in table.values() if slot.roles):
        parts: dict[Target, tuple[Tensor, Tensor, ProjectionRows]] = {}
        for name, slot in table.items():
            if slot.module == path and slot.roles and name in factors:
                a_rd, b_mr = (tensors.pop(f"{name}.lora_{letter}.weight") for letter in "AB")
                parts |= _split(slot, _rows_of(network, slot), a_rd, b_mr, factors[name], name)
        if parts:
            made = insert(network, path, {role: (len(a_rd), rows) for role, (a_rd, _, rows) in parts.items()})
            for role, part in made.parts():
                _fill(part.a, parts[role][0], path)
                _fill(part.b, parts[role][1], path)
    for name, slot in table.items():
        for key, parameter in [] if slot.roles else network.get_submodule(slot.module).named_parameters(recurse=False):
            if (tensor := tensors.pop(_path(name, key), None)) is not None:
                _fill(parameter, tensor, _path(slot.module, key))
    if tensors:
        raise DataError(f"{folder / WEIGHTS} has {len(tensors)} tensors that this model has no place for, such as {min(tensors)}")


def _modules(tensors: Mapping[str, Tensor]) -> list[str]:
    modules = [name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight")]
    for name in modules:
        if f"{name}.lora_B.weight" not in tensors:
            raise DataError(f"the adapter of {name} has an A, but no B; the file is incomplete")
    return modules


def _split(
    slot: Slot, rows: list[tuple[int, int]], a_rd: Tensor, b_mr: Tensor, scale: float, name: str
) -> dict[Target, tuple[Tensor, Tensor, ProjectionRows]]:
    """A serves all projections of a slot; each has its own rows of B."""
    if len(b_mr) != (total := sum(last - first for first, last in rows)):
        raise DataError(f"the adapter of {name} is for {len(b_mr)} rows; this model has {total}")
    factors_of, before = {}, 0
    for role, (first, last) in zip(slot.roles, rows, strict=True):
        factors_of[role] = (a_rd, b_mr[before : before + last - first], ProjectionRows(first, last, scale))
        before += last - first
    return factors_of


def _fill(parameter: Tensor, values: Tensor, name: str) -> None:
    if parameter.shape != values.shape:
        raise DataError(f"{name} has the shape {tuple(values.shape)} in the adapter and {tuple(parameter.shape)} here")
    with torch.no_grad():
        parameter.copy_(values)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise DataError(f"{folder} holds no readable adapter: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise DataError(f"{folder / CONFIG} does not describe a LoRA adapter; other kinds are not supported")
    for name, tensor in tensors.items():
        files.expect_finite(tensor, name, str(folder / WEIGHTS))
    for key, value in config.items():
        if key not in _NEUTRAL | _READ and value not in (None, False, {}, [], *_HARMLESS.get(key, ())):
            raise DataError(f"{folder / CONFIG} has {key} = {repr(value)[:60]}, which is not supported")
    return config, {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}


def _is_plain(pattern: str) -> bool:
    return len(pattern) <= 1000 and sum(map(pattern.count, "*+?")) <= _REPEATS and bool(_PLAIN_PATTERN.fullmatch(pattern))


def _scale(config: Mapping[str, Any], name: str, rank: int) -> float:
    """α / r, or α / √r as in rsLoRA (Kalajdzievski 2023)."""
    patterns, alpha = config.get("alpha_pattern") or {}, config.get("lora_alpha")
    try:
        if unclear := [key for key in patterns if not _is_plain(key)]:
            raise DataError(f"{CONFIG}: the key {unclear[0][:40]!r} of alpha_pattern is no plain pattern. Name the modules.")
        alpha = next((value for key, value in patterns.items() if re.fullmatch(rf"(.*\.)?({key})", name)), alpha)
        scale = float(alpha) / (rank**0.5 if config.get("use_rslora") else rank)  # type: ignore[arg-type]
        if not math.isfinite(scale):
            raise ValueError(f"{alpha} is not finite")
        return scale
    except (AttributeError, TypeError, ValueError, ArithmeticError, re.error) as error:
        raise DataError(f"{CONFIG} has no usable lora_alpha or alpha_pattern for {name}: {error}") from error
