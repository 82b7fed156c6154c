"""BLEU, chrF and exact match of translations, overall, by source length and by task.

    BLEU = 100 · min(1, e^(1 − r/h)) · (p_1 p_2 p_3 p_4)^¼

with h and r the number of tokens in all hypotheses and all references, and p_n the fraction of the hypotheses' n-grams that
occur in their references (Papineni et al. 2002). The score depends on the tokenisation, so sacrebleu's signature goes with each
(Post 2018).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from firth.errors import DataError
from firth.evaluation.by_text import TextCounts, mean_of, sacrebleu_of
from firth.evaluation.metrics import own_values
from firth.evaluation.rouge import rouge
from firth.evaluation.skills import SkillMeasures, by_skill, exact_match
from firth.figures.lengths import LengthBucket
from firth.text.conversation import QuestionFacts

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

_MOST_BUCKETS = 8
_PROMPT = re.compile(r"(\w+):\s")
_MOST_TASKS = 20  # more distinct first words are probably names of speakers, not tasks
# These languages do not put spaces between words: a "word" of 13a or Moses would be a whole clause. sacrebleu's own choice for
# Japanese and Korean needs a dictionary (MeCab) that it does not include.
_TOKENIZER_OF = {"zh": "zh", "ja": "char", "ko": "char"}


@dataclass(frozen=True)
class TaskMeasures:
    """The sentences whose source starts with the same prompt word and a colon, as in "dutch: the sky is blue"."""

    task: str
    sentences: int
    bleu: float | None  # None as in LengthBucket
    exact: float


@dataclass(frozen=True)
class TranslationMeasures:
    sentences: int
    bleu: float  # 0 to 100, like chrf and bleu_tokenised
    chrf: float
    exact: float  # fraction of the sentences that equal their reference, 0 to 1
    bleu_tokenised: float | None  # on Moses tokens, lower-cased, not smoothed, as multi-bleu.perl; None if Moses cannot be used
    bleu_signature: str
    chrf_signature: str
    bleu_tokenised_signature: str | None  # tok:none, because sacrebleu receives the tokens
    buckets: tuple[LengthBucket, ...]  # shortest first
    tasks: tuple[TaskMeasures, ...] = ()  # by name; if every source starts with one of a few prompts
    rouge1: float | None = None  # 0 to 100, see rouge.py; None unless requested
    rouge2: float | None = None
    rougeL: float | None = None
    by_skill: tuple[SkillMeasures, ...] = ()  # where the sources are questions of conversations
    own: dict[str, float] = field(default_factory=dict)  # metrics of one's own


def measures(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    *,
    lower: bool,
    language: str | None,
    sources: Sequence[str] = (),
    summaries: bool = False,
    asked: Sequence[QuestionFacts] | None = None,
) -> TranslationMeasures:
    """One hypothesis, one reference and one source length per sentence; a hypothesis may be empty.

    `lower`: the run lower-cases its text, so compare without case. `language`: of the target, such as "de" or "pt-BR".
    `sources`: if given, prompts in them tell the task of each sentence. `summaries`: also compute ROUGE.
    `asked`: facts about the sources that are questions of conversations; also compute the measures of each skill.
    """
    _refuse_unequal(len(hypotheses), len(references), len(lengths))
    # Lower-case first: Moses tokenises "mr. smith" and "Mr. Smith" differently.
    hypotheses, references = _sentences(hypotheses, lower), _sentences(references, lower)
    scored = {name: (one.score(), one.signature()) for name, one in _scorers(hypotheses, references, lower, language).items()}
    tokenised, signature = scored.get("bleu_tokenised", (None, None))
    bleu = _bleu(lower, language)
    return TranslationMeasures(
        sentences=len(hypotheses),
        bleu=scored["bleu"][0],
        chrf=scored["chrf"][0],
        exact=exact_match(hypotheses, references),
        bleu_tokenised=tokenised,
        bleu_signature=scored["bleu"][1],
        chrf_signature=scored["chrf"][1],
        bleu_tokenised_signature=signature,
        buckets=tuple(_buckets(hypotheses, references, lengths, bleu)),
        tasks=tuple(_tasks(hypotheses, references, sources, bleu)),
        own=own_values("texts", hypotheses, references),
        by_skill=() if asked is None else by_skill(asked, hypotheses, references),
        **(asdict(rouge(hypotheses, references)) if summaries else {}),
    )


@dataclass(frozen=True)
class Written:
    """Translations of a test set beside their references, with what `measures` needs; parts of it can be measured, too."""

    _ROWS: ClassVar = ("hypotheses", "references", "lengths", "sources")

    hypotheses: Sequence[str]
    references: Sequence[str]
    lengths: Sequence[int]  # of the sources, in tokens
    sources: Sequence[str]
    asked: Sequence[QuestionFacts] | None
    lower: bool
    language: str | None
    summaries: bool

    def measures(self) -> TranslationMeasures:
        return measures(
            self.hypotheses,
            self.references,
            self.lengths,
            lower=self.lower,
            language=self.language,
            sources=self.sources,
            summaries=self.summaries,
            asked=self.asked,
        )

    def by_text(self) -> dict[str, TextCounts]:
        """BLEU, chrF and exact match, from the counts of each sentence."""
        hypotheses, references = _sentences(self.hypotheses, self.lower), _sentences(self.references, self.lower)
        scorers = _scorers(hypotheses, references, self.lower, self.language)
        of_sacrebleu = {name: sacrebleu_of(one.metric, one.hypotheses, one.references) for name, one in scorers.items()}
        right = [one == other for one, other in zip(hypotheses, references, strict=True)]
        return {**of_sacrebleu, "exact": mean_of(right)}

    def between(self, shortest: int | None, longest: int | None) -> Written | None:
        """The sentences whose source has so many tokens; None if there is none."""
        most = max(self.lengths) if longest is None else longest
        rows = [row for row, length in enumerate(self.lengths) if (shortest or 0) <= length <= most]
        return self.of(rows) if rows else None

    def of(self, rows: Sequence[int]) -> Written:
        """These sentences; one may be there several times."""
        parts: dict[str, Any] = {name: [getattr(self, name)[row] for row in rows] for name in self._ROWS}
        return replace(self, **parts, asked=None if self.asked is None else [self.asked[row] for row in rows])


def _refuse_unequal(hypotheses: int, references: int, lengths: int) -> None:
    if hypotheses != references:
        raise DataError(
            f"{hypotheses:,} translations but {references:,} references; give one line for each sentence on both sides, "
            "an empty line for an empty translation"
        )
    if lengths != references:
        raise DataError(f"{lengths:,} source lengths but {references:,} references; give the length of each sentence's source")
    if not references:
        raise DataError("there is no sentence to evaluate; give at least one translation with its reference")


def _sentences(lines: Sequence[str], lower: bool) -> list[str]:
    """Strip surrounding white space, as the reader of sentence pairs does."""
    return [line.strip().lower() if lower else line.strip() for line in lines]


@dataclass(frozen=True)
class _Scorer:
    """A metric of sacrebleu with the texts that it compares."""

    metric: Any
    hypotheses: Sequence[str]
    references: Sequence[str]

    def score(self) -> float:
        return float(self.metric.corpus_score(self.hypotheses, [self.references]).score)

    def signature(self) -> str:
        """What sacrebleu wants to be quoted with a score; known once there is one."""
        return str(self.metric.get_signature())


def _scorers(hypotheses: Sequence[str], references: Sequence[str], lower: bool, language: str | None) -> dict[str, _Scorer]:
    """BLEU, chrF and, where Moses knows the language, BLEU on Moses tokens."""
    from sacrebleu.metrics.chrf import CHRF

    scorers = {
        "bleu": _Scorer(_bleu(lower, language), hypotheses, references),
        "chrf": _Scorer(CHRF(lowercase=lower), hypotheses, references),
    }
    if (code := _code(language)) and code not in _TOKENIZER_OF:
        scorers["bleu_tokenised"] = _tokenised(hypotheses, references, code)
    return scorers


def _bleu(lower: bool, language: str | None) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    # force: without it sacrebleu warns about tokenised text once per bucket and suggests an option that firth does not have.
    return BLEU(lowercase=lower, tokenize=_TOKENIZER_OF.get(_code(language), "13a"), force=True)


def _code(language: str | None) -> str:
    """pt-BR → pt"""
    return (language or "").replace("_", "-").split("-")[0].lower()


def _tokenised(hypotheses: Sequence[str], references: Sequence[str], language: str) -> _Scorer:
    """BLEU on the tokens of tokenizer.perl -no-escape; Moses falls back to its English rules."""
    from sacrebleu.metrics.bleu import BLEU
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    moses = MosesTokenizer(lang=language)
    sides = (hypotheses, references)
    tokens, right = ([moses.tokenize(line, escape=False, return_str=True) for line in lines] for lines in sides)
    # Lower-case the tokens, not the text: Moses uses case to recognise abbreviations.
    return _Scorer(BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True), tokens, right)


def _buckets(hypotheses: Sequence[str], references: Sequence[str], lengths: Sequence[int], bleu: BLEU) -> Iterator[LengthBucket]:
    for shortest, longest in _edges(lengths):
        rows = [row for row, length in enumerate(lengths) if shortest <= length <= longest]
        yield LengthBucket(shortest, longest, *_scores(rows, hypotheses, references, bleu))


def _tasks(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str], bleu: BLEU) -> Iterator[TaskMeasures]:
    rows_of: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        prompt = _PROMPT.match(source)
        if prompt is None:
            return
        rows_of.setdefault(prompt[1], []).append(row)
    if len(rows_of) <= _MOST_TASKS:
        for task in sorted(rows_of):
            yield TaskMeasures(task, *_scores(rows_of[task], hypotheses, references, bleu))


def _scores(
    rows: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], bleu: BLEU
) -> tuple[int, float | None, float]:
    """Sentences, BLEU and exact match of some of the rows."""
    chosen, right = [hypotheses[row] for row in rows], [references[row] for row in rows]
    score = bleu.corpus_score(chosen, [right]).score
    defined = score or bleu.corpus_score(right, [right]).score
    return len(rows), score if defined else None, exact_match(chosen, right)


def _edges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(shortest, longest) of each bucket: equal round steps from 1 on, such as 1–10, 11–20 … in Bahdanau et al. 2015, figure 2.

    The step is the smallest of 1, 2, 5, 10, 20, 50 … that covers 99 % of the lengths with at most eight buckets; the last bucket
    also takes the few longer ones. Empty buckets are left out.
    """
    ranked = sorted(lengths)
    usual = ranked[-(-99 * len(ranked) // 100) - 1]  # one very long sentence must not push all others into one bucket
    step = next(step for step in _round_numbers() if _number(usual, step) - _number(ranked[0], step) < _MOST_BUCKETS)
    last = _number(usual, step)
    edges = {number: (number * step + 1, (number + 1) * step) for number in (min(_number(n, step), last) for n in ranked)}
    edges[last] = (last * step + 1, max(ranked[-1], (last + 1) * step))
    first = min(edges)
    edges[first] = (min(ranked[0], edges[first][0]), edges[first][1])  # a source may be empty
    return [edges[number] for number in sorted(edges)]


def _round_numbers() -> Iterator[int]:
    return (digit * 10**zeros for zeros in itertools.count() for digit in (1, 2, 5))


def _number(length: int, step: int) -> int:
    """1 … step → 0, step + 1 … 2 step → 1, …"""
    return max(0, length - 1) // step
