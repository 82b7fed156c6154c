"""Rotary positions in config.json: rope_theta and rope_scaling, or since 2025 both in rope_parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firth.errors import DataError
from firth.interop.files.config_map import Entry, Settings
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.foreign_json import shown
from firth.layers.position.rotary_scaling import FAST, LLAMA_FAST, LLAMA_SLOW, SLOW

ROPE_FREE = frozenset({"position.base", "position.context", "position.factor"})  # settings that config.json can express
_KINDS = ("linear", "yarn", "llama3", "dynamic")
SCALINGS = (None, "none", *_KINDS)  # of `rotary_scaling`; our "ntk" has no name there


def read_rope(config: ForeignConfig, before: Settings) -> dict[str, Any]:
    """The settings of [model] for rotary positions."""
    return rope_settings(rope_table(config), before["context"], config.number("rope_theta", 10_000.0))


def rope_table(config: ForeignConfig) -> dict[str, Any]:
    """rope_parameters, or rope_scaling, its older name; a config.json with both has to say the same in both."""
    return merged(config.table("rope_scaling"), config.table("rope_parameters"))


def merged(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """rope_scaling and rope_parameters as one table."""
    if "type" in old:
        old.setdefault("rope_type", old.pop("type"))
    if new and any(new.get(key) != value for key, value in old.items()):
        raise DataError(
            f"config.json: rope_scaling is {shown(old)}, but rope_parameters is {shown(dict(new))}. Remove the wrong one."
        )
    return {**old, **new}


def read_partial_rope(
    config: ForeignConfig, context: int, base: float, fraction: float, kinds: Sequence[str] = _KINDS
) -> dict[str, Any]:
    """As `read_rope`, of a family in which perhaps only part of a head turns; `base` and `fraction` are what config.json says
    outside of rope_parameters, or the family's."""
    table = rope_table(config)
    fraction = ForeignConfig(table).positive("partial_rotary_factor", fraction)
    table.pop("partial_rotary_factor", None)
    return {**rope_settings(table, context, base, kinds), "position.fraction": None if fraction == 1 else fraction}


def rope_settings(table: Mapping[str, Any], context: int, default: float, kinds: Sequence[str] = _KINDS) -> dict[str, Any]:
    """The settings for one table of rope_parameters; `default` is the base if it names none, `kinds` the family's rope_types."""
    inner = ForeignConfig(table)
    base = inner.positive("rope_theta", default)
    kind = inner.take("rope_type") or inner.take("type") or "default"
    inner.take("type")
    if (fraction := inner.take("partial_rotary_factor")) not in (None, 1):
        raise DataError(f"config.json: partial_rotary_factor is {shown(fraction)}; for this family firth only computes 1.")
    if kind == "default":
        inner.finish()
        return {"position.base": base}
    if kind not in kinds:
        raise DataError(f"config.json: rope_type is {shown(kind)}; firth only computes {', '.join(['default', *kinds])}.")
    factor = inner.positive("factor", 1.0)
    trained = inner.size("original_max_position_embeddings", max(1, int(context / factor)) if kind == "linear" else context)
    match kind:
        case "dynamic":
            if trained != context:
                raise DataError(
                    f"config.json: original_max_position_embeddings is {trained}; with rope_type 'dynamic', firth only computes "
                    f"what max_position_embeddings is, {context}."
                )
        case "yarn":
            inner.expect("beta_fast", FAST)
            inner.expect("beta_slow", SLOW)
            inner.expect("truncate", True)
        case "llama3":
            inner.expect("high_freq_factor", LLAMA_FAST)
            inner.expect("low_freq_factor", LLAMA_SLOW)
    inner.finish()
    return {"position.base": base, "position.scaling": kind, "position.context": trained, "position.factor": factor}


def write_rope(model: Any) -> dict[str, Any]:
    """Both forms, for old and new readers."""
    kind = model.position.scaling or "none"
    if kind == "none":
        return {
            "rope_theta": model.position.base,
            "rope_scaling": None,
            "rope_parameters": {"rope_type": "default", "rope_theta": model.position.base},
        }
    trained = model.position.context
    table: dict[str, Any] = {"rope_type": kind, "factor": model.position.factor or model.context / trained}
    entries: dict[str, Any] = {}
    if kind == "dynamic":
        entries["max_position_embeddings"] = trained  # after so many tokens, positions depend on the length of the text
    else:
        table["original_max_position_embeddings"] = trained
    if kind == "yarn":
        table |= {"beta_fast": FAST, "beta_slow": SLOW}
    if kind == "llama3":
        table |= {"high_freq_factor": LLAMA_FAST, "low_freq_factor": LLAMA_SLOW}
    return {
        **entries,
        "rope_theta": model.position.base,
        "rope_scaling": table,
        "rope_parameters": {**table, "rope_theta": model.position.base},
    }


ROPE = Entry(read_rope, write_rope, ROPE_FREE, {"position.scaling": SCALINGS})
