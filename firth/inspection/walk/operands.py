"""Which matrices of a stage each of them is computed from, as their equations say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from firth.inspection.walk.matrix import WalkMatrix

_PART_OF_A_NAME = r"[^\Wᵀ]|[′″\u0303]"  # a name goes on with these: h of h_t, n of n″, h of h̃; but k of kᵀ is a name
_STEP = r"(?:_[ts](?![−\w]))?"  # q_t is a row of q, but h_t−1 is a matrix of its own


def operands(matrices: Sequence[WalkMatrix]) -> list[list[int]]:
    """The numbers of the earlier matrices that each one reads, the left operand first."""
    return [_read(one, matrices[:n]) for n, one in enumerate(matrices)]


def _read(one: WalkMatrix, before: Sequence[WalkMatrix]) -> list[int]:
    latest = {other.name: n for n, other in enumerate(before)}  # with cross-attention there are two q, k and v
    if one.reads is not None:
        return [latest[name] for name in one.reads]
    _, equals, right = one.equation.partition(" = ")
    if not equals or not latest:
        return []
    longest_first = "|".join(re.escape(name) for name in sorted(latest, key=len, reverse=True))
    found = re.findall(rf"(?<![\w′″])({longest_first}){_STEP}(?!{_PART_OF_A_NAME})", right)
    return list(dict.fromkeys(latest[name] for name in found))
