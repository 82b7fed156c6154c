"""A filter that excludes every token after which a text could no longer match. Letters: n rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from firth.decoding.sampling.filter import Check, Filter, Note
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows, Spelled

LONGEST = 65_536  # characters of a constraint


class Constraint(Filter):
    """The base of those filters. A text may end where it matches, and does end where nothing can follow."""

    drawing: ClassVar[bool] = False
    alone: ClassVar[bool] = True

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        excluded_nV = rows.as_rows([text.notes[cls].excluded(candidates.x_nV.shape[-1]) for text in rows.texts])
        return candidates.without(excluded_nV)


def matching(spelled: Spelled | None, grammar: Callable[[Spelled], str]) -> Note:
    """The state of a text that must match a grammar in the language of llguidance."""
    from firth.decoding.constraints.matching import Matching  # llguidance is needed for constraints only

    if spelled is None:
        raise ConfigError("choice, regex and json_schema only apply to sampling and greedy decoding of a language model.")
    return Matching.of(grammar(spelled), spelled)


def one_constraint(config: Any) -> Iterable[Check]:
    """Refuse two constraints at once."""
    kinds = [base for base in type(config).__bases__ if issubclass(base, Constraint)]
    given = [field.name for kind in kinds for field in fields(kind) if getattr(config, field.name)]  # type: ignore[arg-type]
    if len(given) > 1:
        raise ConfigError(f"decoding.{given[0]} and decoding.{given[1]} cannot be combined. Remove one of them.")
    return ()
