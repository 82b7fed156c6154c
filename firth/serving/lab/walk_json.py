"""A walk as small JSON: only what is visible, rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.inspection.walk import Line, SourceLine, Stage, WalkMatrix
from firth.inspection.walk.operands import operands

STRIP = 16  # columns of each stage in the picture of the whole model
WINDOW = 48  # columns of a matrix that are sent at a time
TERMS = 12  # terms of a sum that are listed one by one


def stage_json(stage: Stage) -> dict[str, Any]:
    strip = stage.out_Td[:, :STRIP]
    return {
        "name": stage.name,
        "kind": stage.kind,
        "side": stage.side,
        "tokens": list(stage.tokens),
        "equation": stage.equation,
        "axes": stage.axes,
        "shape": [len(stage.tokens), stage.out_Td.shape[1]],
        "source": source_json(stage.source),
        "heads": stage.heads,
        "backwards": stage.backwards,
        "strip": rounded(strip, 3),
        "scale": scale_of(strip),
        "links": {name: [[round(p, 3) for p in row] for row in weights().tolist()] for name, weights in stage.links.items()},
    }


def matrices_json(matrices: Sequence[WalkMatrix], start: int) -> list[dict[str, Any]]:
    """Each with the numbers of those before it that it is computed from."""
    return [matrix_json(one, start) | {"operands": read} for one, read in zip(matrices, operands(matrices), strict=True)]


def matrix_json(one: WalkMatrix, start: int) -> dict[str, Any]:
    """At most WINDOW columns from `start` on; the last ones if there are fewer."""
    count = one.value.shape[1]
    first = max(0, min(start, count - WINDOW))
    window = slice(first, first + WINDOW)
    values: list[list[float | None]] = [list(row) for row in rounded(one.value[:, window], 5)]
    if one.allowed is not None:
        for row, seen in zip(values, one.allowed[:, window].tolist(), strict=True):
            row[:] = [value if allowed else None for value, allowed in zip(row, seen, strict=True)]
    shown = one.value if one.allowed is None else one.value[one.allowed]
    return {
        "name": one.name,
        "title": one.title,
        "equation": one.equation,
        "axes": one.axes,
        "shape": list(one.value.shape),
        "rows": list(one.rows),
        "columns": list(one.columns[window]),
        "from": first,
        "values": values,
        "scale": 1.0 if one.unit else scale_of(shown),
        "unit": one.unit,
        "spelled": one.spell is not None,
        "source": source_json(one.source),
    }


def line_json(line: Line) -> dict[str, Any]:
    """A sum with its largest terms, and the rest of them as one number."""
    facts: dict[str, Any] = {"label": line.label, "value": plain(line.value)}
    if line.left is None or line.right is None:
        return facts
    left, right = line.left.double().tolist(), line.right.double().tolist()
    products = [a * b for a, b in zip(left, right, strict=True)]
    order = sorted(range(len(products)), key=lambda n: -abs(products[n]))
    top, rest = sorted(order[:TERMS]) if len(order) > TERMS else range(len(order)), order[TERMS:]
    terms = [
        {
            "n": n,
            "label": line.terms[n] if line.terms else str(n),
            "left": plain(left[n]),
            "right": plain(right[n]),
            "product": plain(products[n]),
        }
        for n in top
    ]
    rested = {"count": len(rest), "value": plain(sum(products[n] for n in rest))} if rest else None
    return facts | {"names": list(line.names), "terms": terms, "rest": rested, "count": len(products)}


def source_json(source: SourceLine) -> dict[str, Any]:
    return source._asdict()


def rounded(value: Tensor, digits: int) -> list[list[float]]:
    return [[float(f"{x:.{digits}g}") for x in row] for row in value.detach().double().tolist()]


def scale_of(value: Tensor) -> float:
    """The number that the strongest colour stands for: nearly the largest, so that one outlier does not hide all others."""
    if not value.numel():
        return 1.0
    size = value.detach().double().abs().flatten()
    quantile = float(torch.quantile(size[: 1 << 20], 0.98))
    return plain(quantile or float(size.max())) or 1.0


def plain(value: float) -> float:
    return float(f"{value:.7g}") if math.isfinite(value) else value
