"""A position scheme in the playground that gives no example of itself: it is run as in a small model, with drawn parameters.

Letters: H heads, D width of a head, R distances, T positions, d width."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

from firth.layers.position import SCHEMES, Bias, PositionScheme, Unprojected
from firth.layers.position.scheme import Draw, PositionExample


def embedded(kind: str, x_Td: Tensor, draw: Draw) -> Tensor:
    T, d = x_Td.shape
    with torch.no_grad():
        return _scheme(kind, 1, d, T, draw).embed(x_Td.unsqueeze(0), 0)[0]


@torch.no_grad()
def inside(kind: str, heads: int, head_width: int, length: int, draw: Draw) -> PositionExample:
    """Its effect inside attend()."""
    scheme, bias = _scheme(kind, heads, head_width, length, draw), ""
    tables: dict[str, Tensor] = dict(scheme.named_parameters())
    relative, in_layers = scheme.relative(), scheme.in_layers()
    if in_layers is not None:
        own = {name: draw(name, shape) for name, shape in in_layers.parameters(head_width).items()}
        tables, relative = tables | own, in_layers.relative(SimpleNamespace(**own))
    if isinstance(relative, Unprojected):
        vector_HRD = relative.vector_Rd.view(-1, heads, head_width).transpose(0, 1)
        relative = relative.projected(vector_HRD, vector_HRD)
    if isinstance(relative, Bias):
        from firth.inspection.walk.recorded_attention import bias_equation, recorded_bias

        distance_KK = torch.arange(length) - torch.arange(length)[:, None]
        bias = f" + {bias_equation(recorded_bias(relative, distance_KK[None, None]))}".replace("+ −", "− ")
    turned = ", both turned by their positions" if scheme.turns else ""
    whole = "({} + position)" if relative is not None and not bias else "{}"
    turn = scheme.turn if scheme.turns else None
    return PositionExample(relative, tables, turned, bias=bias, whole=whole, turn=turn)


def _scheme(kind: str, heads: int, head_width: int, length: int, draw: Draw) -> PositionScheme:
    from firth.models import TransformerConfig
    from firth.models.config import transformer

    settings = {"width": heads * head_width, "depth": 1, "context": length, "attention.heads": heads, "position.kind": kind}
    scheme = SCHEMES[kind].of(transformer(TransformerConfig, settings), True).double()
    with torch.no_grad():
        for name, parameter in scheme.named_parameters():
            parameter.copy_(draw(name, tuple(parameter.shape)))
    return scheme
