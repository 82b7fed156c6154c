"""The measures of answers by skill, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = {"bleu": "BLEU", "tag_accuracy": "tag accuracy", "exact": "exact match"}
_COLUMNS = ("score", "first_rounds", "follow_ups", "known_phrasings", "held_out_phrasings")
_HEADINGS = ("score", "first", "follow-ups", "known", "held-out")


def skill_table(by_skill: Sequence[Mapping[str, Any]]) -> str:
    """One line per skill: its own metric on all answers, on first rounds and follow-ups, and by phrasing."""
    top = f"{'skill':<10}{'metric':<14}{'answers':>8}" + "".join(f"{heading:>12}" for heading in _HEADINGS)
    return "\n".join([top, *(_line(one) for one in by_skill)])


def _line(one: Mapping[str, Any]) -> str:
    digits = 2 if one["metric"] == "bleu" else 4
    values = (one[column] for column in _COLUMNS)
    scores = "".join(f"{'–':>12}" if value is None else f"{value:>12.{digits}f}" for value in values)
    more = f"   chrF {one['chrf']:.2f}" if one["metric"] == "bleu" else ""
    return f"{one['skill']:<10}{_NAMES.get(one['metric'], one['metric']):<14}{one['answers']:>8,}{scores}{more}"
