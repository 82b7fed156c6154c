"""Nucleus sampling (Holtzman et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from firth.config import setting
from firth.decoding.sampling.filter import Check, Filter

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows

NARROWEST = 1e-9  # float32 cannot tell smaller ones from 0


@dataclass(frozen=True, kw_only=True)
class TopP(Filter):
    """The nucleus: the smallest set of most probable tokens whose total probability reaches p. At least one token stays."""

    label = "top-p (nucleus)"
    about = "Keeps the most probable tokens until their total reaches p (Holtzman et al. 2020)."
    latex = r"\textstyle\sum_{w : \mathrm{rank}(w) < \mathrm{rank}(v)} p_w < p"
    hugging_face: ClassVar[Mapping[str, str]] = {"top_p": "top_p"}
    gguf: ClassVar[Mapping[str, str]] = {"top_p": "top_p"}

    top_p: float = setting(1.0, "sample from the smallest set of tokens with at least this total probability; 1: all")

    def checks(self) -> Iterable[Check]:
        yield "top_p", 0 < self.top_p <= 1, "0 < top_p ≤ 1"

    def acts(self) -> bool:
        return self.top_p < 1

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        ranked = candidates.ranked()
        p_nV = ranked.p_nV
        return ranked.without(p_nV.cumsum(-1) - p_nV >= rows.column("top_p", p_nV))
