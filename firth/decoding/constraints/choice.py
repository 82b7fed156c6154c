"""One of several texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firth.config import setting
from firth.decoding.constraints.constraint import LONGEST, Constraint, matching, one_constraint
from firth.decoding.constraints.patterns import grammar_of
from firth.decoding.sampling.filter import Check, Note
from firth.text.tokenizers.spelling import quoted

if TYPE_CHECKING:
    from firth.decoding.sampling.rows import Spelled


@dataclass(frozen=True, kw_only=True)
class OneOf(Constraint):
    label = "choice"
    about = "Excludes tokens after which the text could not become one of several texts."

    choice: tuple[str, ...] = setting((), "texts one of which must be generated, exactly as it is given")

    def checks(self) -> Iterable[Check]:
        yield "choice", "" not in self.choice, "texts of at least one character"
        yield "choice", sum(map(len, self.choice)) <= LONGEST, f"texts of at most {LONGEST:,} characters in all"
        yield from one_constraint(self)

    def acts(self) -> bool:
        return bool(self.choice)

    def remember(self, spelled: Spelled | None) -> Note:
        return matching(spelled, lambda spelled: grammar_of("|".join(map(quoted, self.choice)), spelled))
