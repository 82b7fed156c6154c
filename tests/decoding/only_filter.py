"""A filter that a test adds to firth: this file, and its name in the class statement of DecodingConfig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firth.config import setting
from firth.decoding.sampling.filter import Filter


@dataclass(frozen=True, kw_only=True)
class Only(Filter):
    only: int = setting(-1, "always write the token with this id; -1: off")

    def acts(self) -> bool:
        return self.only >= 0

    @classmethod
    def apply(cls, candidates: Any, rows: Any) -> Any:
        place_nV = candidates.place_V.expand_as(candidates.x_nV)
        return candidates.without(place_nV != rows.column("only", candidates.x_nV))
