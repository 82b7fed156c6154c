"""Min-p sampling (Nguyen et al. 2024)."""

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
class MinP(Filter):
    """Only tokens with p ≥ min_p · max p."""

    label = "min-p"
    about = "Keeps tokens of at least a fraction of the highest probability (Nguyen et al. 2024)."
    latex = r"p_v \ge m \max_w p_w"
    hugging_face: ClassVar[Mapping[str, str]] = {"min_p": "min_p"}
    gguf: ClassVar[Mapping[str, str]] = {"min_p": "min_p"}

    min_p: float = setting(0.0, "sample from tokens with at least this fraction of the highest probability; 0: all")

    def checks(self) -> Iterable[Check]:
        yield "min_p", 0 <= self.min_p <= 1, "0 ≤ min_p ≤ 1"

    def acts(self) -> bool:
        return self.min_p > 0

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        p_nV = candidates.p_nV
        return candidates.without(p_nV < rows.column("min_p", p_nV) * p_nV.amax(-1, keepdim=True))
