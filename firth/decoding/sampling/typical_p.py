"""Locally typical sampling (Meister et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from firth.config import setting
from firth.decoding.sampling.filter import Check, Filter

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows


@dataclass(frozen=True, kw_only=True)
class TypicalP(Filter):
    """The smallest set of tokens with a total probability of at least typical_p whose surprisal is closest to the entropy:
    small |−log p − H|, H = −Σ p log p (eq. 11)."""

    label = "locally typical"
    about = "Keeps the tokens whose surprisal is closest to the entropy (Meister et al. 2022)."
    latex = r"\text{small } \vert -\log p_v - H(p) \vert"
    hugging_face: ClassVar[Mapping[str, str]] = {"typical_p": "typical_p"}

    typical_p: float = setting(1.0, "sample from the tokens of this total probability that are the most typical; 1: all")

    def checks(self) -> Iterable[Check]:
        yield "typical_p", 0 < self.typical_p <= 1, "0 < typical_p ≤ 1"

    def acts(self) -> bool:
        return self.typical_p < 1

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        log_p_nV = candidates.x_nV.log_softmax(-1)
        p_nV = log_p_nV.exp()
        entropy_n1 = -(p_nV * log_p_nV).nansum(-1, keepdim=True)  # 0 · −∞ of an excluded token counts as 0
        distance_nV = (-log_p_nV - entropy_n1).abs()
        order_nV = distance_nV.sort(dim=-1, stable=True).indices
        p_nV = p_nV.gather(-1, order_nV)
        out_nV = p_nV.cumsum(-1) - p_nV >= rows.column("typical_p", p_nV)
        return candidates.without(out_nV.gather(-1, order_nV.argsort(-1)))
