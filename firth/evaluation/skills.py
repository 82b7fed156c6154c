"""Answers measured by what was asked: Yes or No by accuracy, Dutch by BLEU and chrF, tags word by word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from firth.text.conversation import QuestionFacts

Measure = Callable[[Sequence[str], Sequence[str]], float]  # of hypotheses and references

# Any other skill is measured by exact match.
METRIC_OF = {"opinions": "accuracy", "reviews": "accuracy", "dutch": "bleu", "tags": "tag_accuracy"}
EXACT = "exact"
_ANY = "answers"  # the name of what has no skill


@dataclass(frozen=True)
class SkillMeasures:
    """The answers to questions of one skill, by its own metric; also those of a part of them, None where there is none."""

    skill: str
    metric: str  # "accuracy", "bleu", "exact" or "tag_accuracy"
    score: float  # BLEU from 0 to 100, everything else from 0 to 1
    answers: int
    first_rounds: float | None
    follow_ups: float | None
    known_phrasings: float | None
    held_out_phrasings: float | None
    exact: float
    chrf: float


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return sum(a.strip() == b.strip() for a, b in zip(hypotheses, references, strict=True)) / len(references)


def tag_accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of the true tags that the answer has in the same place."""
    right = total = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        tags = reference.split()
        total += len(tags)
        right += sum(a == b for a, b in zip(hypothesis.split(), tags, strict=False))
    return right / total


def by_skill(asked: Sequence[QuestionFacts], hypotheses: Sequence[str], references: Sequence[str]) -> tuple[SkillMeasures, ...]:
    """The measures of each skill, by name."""
    names = [_ANY if one.skill is None else one.skill.name for one in asked]
    return tuple(_measures(name, asked, hypotheses, references, names) for name in sorted(set(names)))


def _measures(
    skill: str, asked: Sequence[QuestionFacts], hypotheses: Sequence[str], references: Sequence[str], names: Sequence[str]
) -> SkillMeasures:
    metric = METRIC_OF.get(skill, EXACT)
    rows = [n for n, name in enumerate(names) if name == skill]

    own = _MEASURE_OF[metric]

    def score(holds: Callable[[QuestionFacts], bool]) -> float | None:
        chosen = [n for n in rows if holds(asked[n])]
        return own([hypotheses[n] for n in chosen], [references[n] for n in chosen]) if chosen else None

    texts = [hypotheses[n] for n in rows], [references[n] for n in rows]
    return SkillMeasures(
        skill,
        metric,
        own(*texts),
        len(rows),
        first_rounds=score(lambda one: one.round == 1),
        follow_ups=score(lambda one: one.round > 1),
        known_phrasings=score(lambda one: one.skill is None or one.skill.phrasing == "known"),
        held_out_phrasings=score(lambda one: one.skill is not None and one.skill.phrasing == "held out"),
        exact=exact_match(*texts),
        chrf=_chrf(*texts),
    )


def _bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(force=True).corpus_score(list(hypotheses), [list(references)]).score)


def _chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(list(hypotheses), [list(references)]).score)


_MEASURE_OF: Mapping[str, Measure] = {"accuracy": exact_match, EXACT: exact_match, "bleu": _bleu, "tag_accuracy": tag_accuracy}
