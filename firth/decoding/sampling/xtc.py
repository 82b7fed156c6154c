"""Exclude top choices (XTC), as in llama.cpp."""

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
class Xtc(Filter):
    """With probability π, only the least probable of the tokens with p ≥ threshold stays. Tossing a coin for that and drawing
    then is the same as drawing from the mixture of both distributions, π·p′ + (1 − π)·p, so no coin is tossed."""

    label = "XTC"
    about = "Sometimes excludes the top choices, all but the least probable of them (llama.cpp)."
    latex = r"p' = \pi \, p^{\mathrm{rest}} + (1 - \pi) \, p"
    gguf: ClassVar[Mapping[str, str]] = {"xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold"}

    xtc_probability: float = setting(0.0, "how often to exclude the top choices: all but the least probable of them; 0: never")
    xtc_threshold: float = setting(0.1, "with `xtc_probability`: the probability from which on a token is a top choice")

    def checks(self) -> Iterable[Check]:
        yield "xtc_probability", 0 <= self.xtc_probability <= 1, "0 ≤ xtc_probability ≤ 1"
        yield "xtc_threshold", 0 < self.xtc_threshold <= 0.5, "0 < xtc_threshold ≤ 0.5: above, there are never two top choices"

    def acts(self) -> bool:
        return self.xtc_probability > 0

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        ranked = candidates.ranked()
        p_nV = ranked.p_nV
        top_nV = p_nV >= rows.column("xtc_threshold", p_nV)
        last_n1 = top_nV.sum(-1, keepdim=True) - 1
        rest_nV = ranked.without(ranked.place_V < last_n1).p_nV
        pi_n1 = rows.column("xtc_probability", p_nV)
        return ranked.of((pi_n1 * rest_nV + (1 - pi_n1) * p_nV).log())
