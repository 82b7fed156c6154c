"""Text that matches a regular expression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firth.config import setting
from firth.decoding.constraints.constraint import LONGEST, Constraint, matching
from firth.decoding.constraints.patterns import grammar_of
from firth.decoding.sampling.filter import Check, Note

if TYPE_CHECKING:
    from firth.decoding.sampling.rows import Spelled


@dataclass(frozen=True, kw_only=True)
class Regex(Constraint):
    """The expression has to match the whole text. Its syntax is that of Rust: as in Python, without \\1 and look-around."""

    label = "regular expression"
    about = "Excludes tokens after which the text could not match a regular expression."

    regex: str = setting("", "a regular expression that the whole text must match; empty: any text")

    def checks(self) -> Iterable[Check]:
        yield "regex", len(self.regex) <= LONGEST, f"at most {LONGEST:,} characters"

    def acts(self) -> bool:
        return bool(self.regex)

    def remember(self, spelled: Spelled | None) -> Note:
        return matching(spelled, lambda spelled: grammar_of(self.regex, spelled))
