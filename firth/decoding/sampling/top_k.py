"""Top-k sampling (Fan et al. 2018)."""

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
class TopK(Filter):
    """Only the k most probable tokens; on ties the smaller ids."""

    label = "top-k"
    about = "Keeps the k most probable tokens (Fan et al. 2018)."
    latex = r"\mathrm{rank}(v) \le k"
    hugging_face: ClassVar[Mapping[str, str]] = {"top_k": "top_k"}
    gguf: ClassVar[Mapping[str, str]] = {"top_k": "top_k"}

    top_k: int = setting(0, "sample from this many of the most probable tokens; 0: all")

    def checks(self) -> Iterable[Check]:
        yield "top_k", self.top_k >= 0, "0 or more"

    def acts(self) -> bool:
        return self.top_k > 0

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        ranked = candidates.ranked()
        return ranked.without(ranked.place_V >= rows.column("top_k", ranked.x_nV))
