"""Lists of what fast paths know. A fast path computes some configs and some calls, and lists what it knows of each:

    KNOWS = {"width": ANY, "norm.placement": ("pre",), "attention.qk_norm": (False,), ...}      settings and their values
    KNOWS = frozenset({"q_BHQD", "k_BGKC", "scale", ...})                                       arguments of a call

What is not in the list is known only at its default, which means what was computed before it existed. So a new setting or a new
argument makes every fast path refuse the models that use it, until somebody teaches it to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from firth.config import settings

Known = Mapping[str, tuple[Any, ...] | None]
ANY = None  # whatever the value
Class = TypeVar("Class", bound=type)


def unknown_setting(config: Any, known: Known) -> str | None:
    """The first setting of a config that a fast path with this list does not compute; None if it computes all."""
    for name, value, default in settings(config):
        values = known.get(name, (default,))
        if values is not ANY and value not in values:
            return f"{name} = {value!r}"
    return None


def unknown_argument(call: Any, known: frozenset[str]) -> str | None:
    """Why a kernel that knows these arguments cannot run the call; None if it can."""
    for name, default in call.defaults:
        if name not in known and getattr(call, name) != default:
            return f"the kernel does not know {name}"
    return None


def with_defaults(cls: Class) -> Class:
    """A dataclass of arguments, with their names and defaults in `defaults`, too: torch.compile cannot trace dataclasses.fields,
    and what it cannot trace ends a graph."""
    cls.defaults = tuple((one.name, one.default) for one in fields(cls))  # type: ignore[attr-defined]
    return cls
