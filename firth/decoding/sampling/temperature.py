"""Temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from firth.config import setting
from firth.decoding.sampling.filter import Check, Filter

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows

COLDEST = 1e-6  # float32 cannot tell smaller ones from 0, and logits divided by them overflow


@dataclass(frozen=True, kw_only=True)
class Temperature(Filter):
    """p = softmax(x / T). At T = 0 nothing is drawn: the most probable token is taken."""

    about = "Divides the logits: below 1 the distribution is steeper, above 1 flatter."
    latex = r"p = \mathrm{softmax}(x / T)"
    hugging_face: ClassVar[Mapping[str, str]] = {"temperature": "temperature"}
    gguf: ClassVar[Mapping[str, str]] = {"temperature": "temp"}

    temperature: float = setting(1.0, "divide the logits by this; 0 (or less than 0.000001): take the most probable token")

    def checks(self) -> Iterable[Check]:
        yield "temperature", self.temperature >= 0, "0 or more"
        yield "temperature", self.temperature <= 1e6, "at most 1,000,000"

    def acts(self) -> bool:
        return self.temperature != 1

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        return candidates.of(candidates.x_nV / rows.column("temperature", candidates.x_nV))
