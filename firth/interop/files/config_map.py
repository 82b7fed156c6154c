"""Config maps: which keys of a config.json are which settings of [model], as a plain table that is read in both directions, as
weight_map.py does for tensors.

    size("width", "n_embd")                                 model.width is n_embd
    choice("feedforward.activation", "act", {"gelu_new": "gelu_tanh"})    with other names for the values
    always("norm.kind", "layer")                            has no key: all models of the family have it
    expected("attention_bias", False)                       is no setting of ours: only this value is computed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from firth.interop.files.foreign_config import ForeignConfig

Settings = Mapping[str, Any]  # of [model], such as {"attention.heads": 8}
# Settings that may be left out of [model], and where a model has their effective value.
_EFFECTIVE = {"attention.kv_heads": "attention.groups", "attention.head_width": "per_head", "feedforward.hidden": "inner"}


@dataclass(frozen=True)
class Entry:
    """Some keys of config.json and the settings that they stand for. `read` is also given the settings of the entries before it.
    The settings in `free` can have any value, those in `limited` one of the given values; all others keep their defaults."""

    read: Callable[[ForeignConfig, Settings], Settings] = lambda config, before: {}
    write: Callable[[Any], Mapping[str, Any]] = lambda model: {}
    free: Collection[str] = ()
    limited: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def size(ours: str, theirs: str, default: int | str | None = None) -> Entry:
    """A size; where config.json has none, it is `default`, a number or the name of an earlier setting."""

    def read(config: ForeignConfig, before: Settings) -> Settings:
        return {ours: config.size(theirs, before[default] if isinstance(default, str) else default)}

    return Entry(read, lambda model: {theirs: effective(model, ours)}, (ours,))


def either_name(ours: str, theirs: str, other: str) -> Entry:
    """A size with two names in config.json, the first of which is written."""
    return _value(ours, theirs, lambda config: config.one_of(theirs, other))


def number(ours: str, theirs: str, default: float) -> Entry:
    return _value(ours, theirs, lambda config: config.number(theirs, default))


def either(ours: str, theirs: str, default: bool) -> Entry:
    """True or false, `default` where config.json has neither."""
    return _value(ours, theirs, lambda config: config.expect(theirs, default, not default))


def optional(ours: str, theirs: str, default: float | None) -> Entry:
    """A number or null, `default` where config.json has no such key."""
    return _value(ours, theirs, lambda config: config.optional(theirs, default))


def choice(ours: str, theirs: str, names: Mapping[Any, Any], default: str | None = None) -> Entry:
    """A choice, from their `names` to ours. Of several names the first is written. The first of all is the default, if no other
    is given."""
    known = dict.fromkeys([*names] if default is None else [default, *names])
    values = tuple(dict.fromkeys(names.values()))
    first = {value: next(name for name in names if names[name] == value) for value in values}
    return Entry(
        lambda config, _: {ours: names[config.expect(theirs, *known)]},
        lambda model: {theirs: first[effective(model, ours)]},
        limited={ours: values},
    )


def always(ours: str, value: Any) -> Entry:
    return Entry(lambda config, _: {ours: value}, limited={ours: (value,)})


def expected(theirs: str, *values: Any) -> Entry:
    """A key with one of these values, which all mean the same; the first is the default, and is written."""
    return Entry(lambda config, _: done(config.expect(theirs, *values)), lambda model: {theirs: values[0]})


def unwritten(theirs: str, *values: Any) -> Entry:
    """The same, for a key that is only read."""
    return Entry(lambda config, _: done(config.expect(theirs, *values)))


def unused(*theirs: str) -> Entry:
    """Keys that change no result."""
    return Entry(lambda config, _: done(*map(config.take, theirs)))


def dropout(*theirs: str) -> Entry:
    """Rates of training, which are not read."""
    return Entry(lambda config, _: done(*map(config.take, theirs)), lambda model: dict.fromkeys(theirs, model.dropout))


def written(**theirs: Any) -> Entry:
    """Keys that others read, with the values that a model of ours has."""
    return Entry(write=lambda model: theirs)


def _value(ours: str, theirs: str, read: Callable[[ForeignConfig], Any]) -> Entry:
    return Entry(lambda config, _: {ours: read(config)}, lambda model: {theirs: effective(model, ours)}, (ours,))


def effective(model: Any, ours: str) -> Any:
    """The value of a setting, which may be left out of [model]."""
    return attrgetter(_EFFECTIVE.get(ours, ours))(model)


def done(*read: Any) -> Settings:
    """No settings: of keys that are only checked."""
    return {}
