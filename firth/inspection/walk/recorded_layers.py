"""Norms and activations in their own operations. Letters: T tokens, d width, h inner width."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.inspection.walk.matrix import SourceLine, Spell, source_line
from firth.inspection.walk.recorded import Recording
from firth.layers.activation import Activation
from firth.layers.norm import Norm, kind_of

_LETTERS = {"weight": "γ", "bias": "β"}


class SpelledStep(NamedTuple):
    """A matrix with its equation and the computation of each number."""

    value_Tn: Tensor
    title: str
    equation: str
    source: SourceLine
    spell: Spell


def spelled_norm(norm: nn.Module, x_Td: Tensor, x: str, name: str) -> SpelledStep:
    """A norm of x, a matrix of that name."""
    kind = kind_of(norm)
    own = [(_LETTERS.get(key, key.rsplit("_", 1)[0]), value) for key, value in norm.named_parameters()]
    ran = Recording((kind or Norm).explained, norm, x_Td, names=[*own, (x, x_Td)])
    line = ran.source(ran.result) or source_line(type(norm).forward, "def forward")
    title = type(norm).__name__ if kind is None else kind.title()
    return SpelledStep(norm(x_Td), title, f"{name} = {ran.equation(ran.result)}", line, ran.spell(ran.result, name))


def spelled_activation(phi: type[Activation], parts: dict[str, Tensor], name: str) -> SpelledStep:
    """φ of u or, if it is gated, of g and u."""
    ran = Recording(lambda: phi.apply(_joined(*parts.values())), names=parts.items())
    line = ran.source(ran.result) or source_line(phi.apply, "def ")
    return SpelledStep(ran.result, "activation", f"{name} = {ran.equation(ran.result)}", line, ran.spell(ran.result, name))


def _joined(*parts: Tensor) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
