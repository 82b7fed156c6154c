"""Weight maps: which tensors of a public checkpoint are which of ours, as a plain table that is read in both directions.

A `Weight` pairs one of our names with one or several of theirs and says how the values correspond. {n} stands for the number of a
layer, and {p} for "weight" or "bias":

    Weight("blocks.{n}.attention.out.{p}", "transformer.h.{n}.attn.c_proj.{p}", TRANSPOSED)
    Weight("blocks.{n}.attention.qkv.weight", (q, k, v), QKV)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from firth.errors import DataError

_SHOWN = 4  # names in a message


@dataclass(frozen=True)
class Conversion:
    """Two functions that convert a value in both directions. The second argument is the [model] of a recipe, whose widths may be
    needed."""

    to_ours: Callable[[Sequence[Tensor], Any], Tensor]
    to_theirs: Callable[[Tensor, Any], Sequence[Tensor]]


def stacked(rows: Callable[[Any], Sequence[int]]) -> Conversion:
    """Our matrix holds theirs one below the other; `rows` says how many rows each has."""
    return Conversion(
        lambda theirs, _: torch.cat(list(theirs)), lambda ours, settings: ours.split_with_sizes(list(rows(settings)))
    )


def _qkv_rows(settings: Any) -> Sequence[int]:
    key = settings.attention.groups * settings.per_head
    return settings.attention.heads * settings.per_head, key, key


SAME = Conversion(lambda theirs, _: theirs[0], lambda ours, _: [ours])
TRANSPOSED = Conversion(lambda theirs, _: theirs[0].mT.contiguous(), lambda ours, _: [ours.mT])
TWICE = Conversion(lambda theirs, _: theirs[0], lambda ours, _: [ours, ours])  # stored twice; the first counts
QKV = stacked(_qkv_rows)  # queries, keys and values, which we project with one matrix
KV = stacked(lambda settings: (settings.attention.groups * settings.per_head,) * 2)  # of attention to a source
GATE_UP = stacked(lambda settings: (settings.inner, settings.inner))  # gate and value of SwiGLU


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


# Gains are stored as γ − 1. The sum is rounded once, to the type that it is loaded in.
PLUS_ONE = Conversion(lambda theirs, _: _wide(theirs[0]) + 1, lambda ours, _: [(_wide(ours) - 1).to(ours.dtype)])


def _behind(rows: int) -> Conversion:
    return Conversion(
        lambda theirs, _: theirs[0][rows:].contiguous(), lambda ours, _: [torch.cat((ours.new_zeros(rows, ours.shape[1]), ours))]
    )


BEHIND_TWO = _behind(2)  # a table of positions with two rows before that of the first position, which nothing of ours reads


def alternating(order: Callable[[Any], Sequence[int] | None]) -> Conversion:
    """Their queries, keys and values alternate by group: the rows of the queries of group 0, of its key, of its value, those of
    group 1, …; `order` says where each number of our queries and keys stands in theirs, None: where it stands in ours."""
    reordered = turned(order)

    def to_ours(theirs: Sequence[Tensor], settings: Any) -> Tensor:
        rows, groups, shared = theirs[0], settings.attention.groups, settings.attention.heads // settings.attention.groups
        parts = rows.reshape(groups, shared + 2, settings.per_head, *rows.shape[1:]).split_with_sizes((shared, 1, 1), dim=1)
        return reordered.to_ours([torch.cat([part.flatten(0, 2) for part in parts])], settings)

    def to_theirs(ours: Tensor, settings: Any) -> Sequence[Tensor]:
        (rows,), groups = reordered.to_theirs(ours, settings), settings.attention.groups
        parts = (
            part.reshape(groups, -1, settings.per_head, *rows.shape[1:]) for part in rows.split_with_sizes(_qkv_rows(settings))
        )
        return [torch.cat(list(parts), dim=1).flatten(0, 2)]

    return Conversion(to_ours, to_theirs)


def turned(order: Callable[[Any], Sequence[int] | None]) -> Conversion:
    """Queries, keys and values one below the other, as ours, with the numbers of each query and key in another order (see
    `alternating`)."""

    def moved(rows: Tensor, settings: Any, places: Sequence[int]) -> Tensor:
        heads = rows.reshape(-1, settings.per_head, *rows.shape[1:])
        values = settings.attention.groups
        return torch.cat((heads[:-values, places], heads[-values:])).flatten(0, 1)

    def to_ours(theirs: Sequence[Tensor], settings: Any) -> Tensor:
        places = order(settings)
        return theirs[0] if places is None else moved(theirs[0], settings, places)

    def to_theirs(ours: Tensor, settings: Any) -> Sequence[Tensor]:
        places = order(settings)
        return [ours if places is None else moved(ours, settings, sorted(range(len(places)), key=places.__getitem__))]

    return Conversion(to_ours, to_theirs)


class Weight:
    def __init__(self, ours: str, theirs: str | tuple[str, ...], conversion: Conversion = SAME) -> None:
        self.ours, self.theirs, self.conversion = ours, (theirs,) if isinstance(theirs, str) else theirs, conversion
        self._pattern = pattern(ours)

    def their_names(self, ours: str, without: str = "") -> tuple[str, ...] | None:
        """Their names of our tensor `ours`, minus the prefix `without`; None: this line is about another tensor."""
        match = self._pattern.fullmatch(ours)
        if match is None:
            return None
        return tuple(name.format(**match.groupdict()).removeprefix(without) for name in self.theirs)


def pattern(name: str) -> re.Pattern[str]:
    """A name in which {n} matches any number and {p} "weight" or "bias"."""
    escaped = re.escape(name).replace(r"\{n\}", r"(?P<n>\d+)").replace(r"\{p\}", "(?P<p>weight|bias)")
    return re.compile(escaped)


class Tensors(Protocol):
    """The tensors of a checkpoint: their shapes at once, their values on demand."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def tensor(self, name: str) -> Tensor: ...


@dataclass(frozen=True)
class TensorSource:
    """One of our tensors, and theirs that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    conversion: Conversion


@dataclass(frozen=True)
class WeightMap:
    """`ignored` are names, with {n} and {p}, of tensors that hold no weights, such as stored masks. `repeated` are tensors that a
    checkpoint may hold besides: each a copy of another of theirs, or computed from [model]; one with other values is refused.
    Names that begin with `prefix` may come without it: a checkpoint of the model without its output layer leaves it out, and so
    do we if `bare`. `renamed` are other names of some of theirs, which are read as well. `config` describes the model beside the
    weights, for messages."""

    weights: tuple[Weight, ...]
    ignored: tuple[str, ...] = ()
    repeated: Mapping[str, str | Callable[[Any], Tensor]] = field(default_factory=dict)
    prefix: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    config: str = "config.json"
    bare: bool = False

    def names_read(self, names: Iterable[str]) -> list[str]:
        """Those of the names whose values count."""
        computed = (name for name, origin in self.repeated.items() if callable(origin))
        unread = [pattern(name) for name in (*self.ignored, *computed)]
        return [name for name in names if not any(one.fullmatch(name) for one in unread)]

    def places(self, ours: Iterable[str], without: str = "") -> list[TensorSource]:
        return [self._place(name, without) for name in ours]

    def _place(self, name: str, without: str) -> TensorSource:
        for weight in self.weights:
            theirs = weight.their_names(name, without)
            if theirs is not None:
                return TensorSource(name, theirs, weight.conversion)
        raise KeyError(name)  # the table of the family is incomplete

    def read(self, theirs: Tensors, shapes: Mapping[str, torch.Size], settings: Any, dtype: torch.dtype) -> dict[str, Tensor]:
        """Our tensors, of these shapes. Missing, unexpected and mis-shaped ones are refused before any is read."""
        bare = bool(self.prefix) and not any(name.startswith(self.prefix) for name in theirs.shapes)
        places = [self._as_named(place, theirs.shapes) for place in self.places(shapes, self.prefix if bare else "")]
        self._check(places, theirs.shapes, shapes, settings)
        self._check_repeated(theirs, {name for place in places for name in place.theirs}, settings, self.prefix if bare else "")
        return {
            place.ours: place.conversion.to_ours([theirs.tensor(name) for name in place.theirs], settings).to(dtype)
            for place in places
        }

    def _as_named(self, place: TensorSource, given: Mapping[str, object]) -> TensorSource:
        names = (name if name in given else self.renamed.get(name, name) for name in place.theirs)
        return replace(place, theirs=tuple(names))

    def write(self, ours: Mapping[str, Tensor], settings: Any) -> dict[str, Tensor]:
        """Their tensors."""
        tensors: dict[str, Tensor] = {}
        for place in self.places(ours, self.prefix if self.bare else ""):
            parts = place.conversion.to_theirs(ours[place.ours], settings)
            tensors |= {name: part.contiguous() for name, part in zip(place.theirs, parts, strict=True)}
        return tensors

    def _check(
        self,
        places: Sequence[TensorSource],
        given: Mapping[str, tuple[int, ...]],
        shapes: Mapping[str, torch.Size],
        settings: Any,
    ) -> None:
        expected: dict[str, tuple[int, ...]] = {}
        for place in places:
            parts = place.conversion.to_theirs(torch.empty(shapes[place.ours], device="meta"), settings)
            expected |= {name: tuple(part.shape) for name, part in zip(place.theirs, parts, strict=True)}
        known = [pattern(name) for name in (*self.ignored, *self.repeated)]
        problems = {
            "missing": [name for name in expected if name not in given],
            "unexpected": [name for name in given if name not in expected and not any(one.fullmatch(name) for one in known)],
            "of another shape": [
                f"{name} is {given[name]} instead of {shape}"
                for name, shape in expected.items()
                if name in given and given[name] != shape
            ],
        }
        told = [f"{what}: {_listed(names)}" for what, names in problems.items() if names]
        if told:
            raise DataError(f"the weights do not fit {self.config}. {'; '.join(told)}.")

    def _check_repeated(self, theirs: Tensors, read: Collection[str], settings: Any, without: str) -> None:
        for name, origin in self.repeated.items():
            if name in read or name not in theirs.shapes:
                continue
            values = theirs.tensor(name)
            if callable(origin):
                if not same_values(values, origin(settings)):
                    raise DataError(f"the weights contain {name} with unusual values; firth only computes the usual ones.")
            elif not torch.equal(values, theirs.tensor(origin.removeprefix(without))):
                raise DataError(
                    f"{name} differs from {origin}, which it has to be a copy of by {self.config}. If the model has an output "
                    "layer of its own, set tie_word_embeddings to false there."
                    if name.endswith("weight")
                    else f"{name} differs from {origin}, which it has to be a copy of by {self.config}."
                )


def same_values(given: Tensor, computed: Tensor) -> bool:
    """True if both are equal as far as the type of `given` can tell; `computed` may have more rows."""
    if given.dim() != computed.dim() or given.shape[1:] != computed.shape[1:] or len(given) > len(computed):
        return False
    room = 4 * torch.finfo(given.dtype).eps if given.is_floating_point() else 0.0
    return bool(((given.double() - computed[: len(given)]).abs() <= max(room, 1e-5)).all())


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
