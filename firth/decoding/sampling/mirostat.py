"""Mirostat (Basu et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from firth.config import setting
from firth.decoding.sampling.filter import Check, Filter, Note

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows, Spelled


@dataclass(frozen=True, kw_only=True)
class Mirostat(Filter):
    """Only tokens with a surprisal −log₂ p ≤ μ, but always the most probable one. A token that was drawn with probability q moves
    the bound: μ ← μ − η (−log₂ q − τ), from μ = 2τ on (algorithm 1, where the tokens are cut off by their exact surprisal instead
    of an estimate of it; in llama.cpp this is version 2)."""

    about = "Keeps the surprisal of the text near a target (Basu et al. 2021)."
    latex = r"-\log_2 p_v \le \mu, \quad \mu \leftarrow \mu - \eta \, (-\log_2 q - \tau)"
    alone: ClassVar[bool] = True

    mirostat: float = setting(0.0, "keep the surprisal of the text near this many bits per token (mirostat's τ); 0: off")
    mirostat_rate: float = setting(0.1, "with `mirostat`: how fast the bound on the surprisal of a token moves (η)")

    def checks(self) -> Iterable[Check]:
        yield "mirostat", 0 <= self.mirostat <= 100, "0 to 100 bits; 0 is off"
        yield "mirostat_rate", 0 < self.mirostat_rate <= 10, "0 < mirostat_rate ≤ 10"

    def acts(self) -> bool:
        return self.mirostat > 0

    def remember(self, spelled: Spelled | None) -> Note:
        return Bound(self.mirostat, self.mirostat_rate)

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        mu_n1 = rows.as_column([text.notes[cls].mu for text in rows.texts], candidates.x_nV)
        bits_nV = -candidates.x_nV.log_softmax(-1) / math.log(2)
        return candidates.without((bits_nV > mu_n1) & (bits_nV > bits_nV.amin(-1, keepdim=True)))


class Bound(Note):
    """μ of one text."""

    def __init__(self, target: float, rate: float) -> None:
        self.target, self.rate = target, rate
        self.mu = 2 * target

    def add(self, token: int, probability: float) -> None:
        surprisal = -math.log2(max(probability, 1e-30))
        self.mu -= self.rate * (surprisal - self.target)
