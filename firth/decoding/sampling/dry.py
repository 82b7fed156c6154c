"""The penalty on repeated sequences called DRY ("don't repeat yourself"), as in llama.cpp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from firth.config import setting
from firth.decoding.sampling.filter import Check, Filter

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows

_LONGEST = 64  # matches are not followed further back: the penalty is prohibitive long before


@dataclass(frozen=True, kw_only=True)
class Dry(Filter):
    """x − m · b^(L − A) for a token that would continue a repetition: the last L tokens, L ≥ A, have occurred before, and the
    token came next there. Of several occurrences, the longest counts."""

    label = "DRY"
    about = "Makes a token that would continue a repetition less probable (llama.cpp)."
    latex = r"x_v - m \, b^{L - A}"
    drawing: ClassVar[bool] = False

    dry_multiplier: float = setting(0.0, "subtract this · b^(L − A) from the logits of tokens that repeat L tokens (DRY); 0: off")
    dry_base: float = setting(1.75, "with `dry_multiplier`: base b, how much more a longer repetition costs")
    dry_allowed_length: int = setting(2, "with `dry_multiplier`: A, the shortest sequence whose repetition costs")

    def checks(self) -> Iterable[Check]:
        yield "dry_multiplier", 0 <= self.dry_multiplier <= 100, "0 to 100; 0 is off"
        yield "dry_base", 1 <= self.dry_base <= 10, "1 to 10"
        yield "dry_allowed_length", 1 <= self.dry_allowed_length <= _LONGEST, f"1 to {_LONGEST}"

    def acts(self) -> bool:
        return self.dry_multiplier > 0

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        x_nV = candidates.x_nV.clone()
        for row, text in enumerate(rows.texts):
            config = text.config
            for token, length in repetitions(text.tokens).items():
                if length >= config.dry_allowed_length:
                    x_nV[row, token] -= config.dry_multiplier * config.dry_base ** (length - config.dry_allowed_length)
        return candidates.of(x_nV)


def repetitions(tokens: Sequence[int]) -> dict[int, int]:
    """For each token that has followed an earlier occurrence of the end of the text: the length of the longest such end."""
    longest: dict[int, int] = {}
    if not tokens:
        return longest
    last, end = tokens[-1], len(tokens)
    for at in range(end - 1):
        if tokens[at] != last:
            continue
        length, most = 1, min(_LONGEST, at + 1)
        while length < most and tokens[at - length] == tokens[end - 1 - length]:
            length += 1
        follower = tokens[at + 1]
        longest[follower] = max(longest.get(follower, 0), length)
    return longest
