"""The repetition penalty of Keskar et al. (2019)."""

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
class RepetitionPenalty(Filter):
    """x / θ, or x·θ where x < 0, for the logits x of tokens that have occurred (§4.1). The paper always divides, which would make
    a token with a negative logit more probable."""

    about = "Makes tokens that have occurred less probable (Keskar et al. 2019)."
    latex = r"x_v / \theta, \text{ or } x_v \theta \text{ if } x_v < 0"
    drawing: ClassVar[bool] = False
    hugging_face: ClassVar[Mapping[str, str]] = {"repetition_penalty": "repetition_penalty"}
    gguf: ClassVar[Mapping[str, str]] = {"repetition_penalty": "penalty_repeat"}

    repetition_penalty: float = setting(
        1.0, "divide the logits of tokens that have occurred by this, multiply negative ones; 1: off"
    )

    def checks(self) -> Iterable[Check]:
        yield "repetition_penalty", self.repetition_penalty > 0, "more than 0; 1 is no penalty"
        yield "repetition_penalty", 1e-3 <= self.repetition_penalty <= 1e3, "0.001 to 1000; 1 is no penalty"

    def acts(self) -> bool:
        return self.repetition_penalty != 1

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        x_nV = candidates.x_nV
        theta_n1 = rows.column("repetition_penalty", x_nV)
        penalised_nV = (x_nV * theta_n1).where(x_nV < 0, x_nV / theta_n1)
        return candidates.of(penalised_nV.where(rows.seen_nV(x_nV.shape[-1]), x_nV))
