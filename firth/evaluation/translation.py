"""How near translations are to their references: BLEU, chrF, exact match, and the same by the length of the source and by task.

    BLEU = 100 · min(1, e^(1 − r/h)) · (p_1 p_2 p_3 p_4)^¼

with h and r the tokens of all hypotheses and of all references, and p_n the share of the hypotheses' n-grams that their
references have (Papineni et al. 2002). What is a token decides the figure, so each comes with sacrebleu's signature (Post 2018).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from firth.errors import DataError
from firth.evaluation.rouge import rouge

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

_MOST_BUCKETS = 8
_PROMPT = re.compile(r"(\w+):\s")
_MOST_TASKS = 20  # more kinds of first words are the names of speakers, or of anything
# Spaces do not separate what is compared in these: a "word" of 13a, or of Moses, would be a clause. sacrebleu's own choice for
# the last two needs a dictionary (MeCab) that does not come with it.
_TOKENS_OF = {"zh": "zh", "ja": "char", "ko": "char"}


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose source has from `shortest` to `longest` tokens, both included."""

    shortest: int
    longest: int
    sentences: int
    bleu: float | None  # None where the references have no four tokens in a row: they themselves would score 0
    exact: float


@dataclass(frozen=True)
class TaskMeasures:
    """The sentences whose source begins with the same word and a colon: a prompt, as in "dutch: the sky is blue"."""

    task: str
    sentences: int
    bleu: float | None  # as of a LengthBucket
    exact: float


@dataclass(frozen=True)
class TranslationMeasures:
    sentences: int
    bleu: float  # 0 to 100, as chrf and bleu_tokenised
    chrf: float
    exact: float  # share of the sentences that equal their reference, 0 to 1
    bleu_tokenised: float | None  # of Moses' tokens, lower-cased, not smoothed: multi-bleu.perl's; None without a language for it
    bleu_signature: str
    chrf_signature: str
    bleu_tokenised_signature: str | None  # tok:none, as the tokens are made before sacrebleu sees them
    buckets: tuple[LengthBucket, ...]  # by rising length
    tasks: tuple[TaskMeasures, ...] = ()  # by name; where all sources begin with a prompt, of a few kinds
    rouge1: float | None = None  # 0 to 100, see rouge.py; where it was asked for
    rouge2: float | None = None
    rougeL: float | None = None


def measures(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    *,
    lower: bool,
    language: str | None,
    sources: Sequence[str] = (),
    summaries: bool = False,
) -> TranslationMeasures:
    """One hypothesis, one reference and the length of one source for each sentence; a hypothesis may be empty.

    `lower`: the run read its text in lower case, so case counts for nothing. `language`: of the target, as in "de" or "pt-BR".
    `sources` themselves, where it may be told from them which task each sentence is of. `summaries`: ROUGE is wanted, too.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    _refuse_unequal(len(hypotheses), len(references), len(lengths))
    # Folded before anything else: Moses would cut "mr. smith" and "Mr. Smith" differently.
    said, right = _sentences(hypotheses, lower), _sentences(references, lower)
    language = None if language is None else language.replace("_", "-").split("-")[0].lower()
    # force: sacrebleu's warning of text that looks tokenised would come once per bucket and name an option that is not here.
    bleu = BLEU(lowercase=lower, tokenize=_TOKENS_OF.get(language or "", "13a"), force=True)
    chrf = CHRF(lowercase=lower)
    tokenised, signature = (None, None) if language is None or language in _TOKENS_OF else _tokenised(said, right, language)
    return TranslationMeasures(
        sentences=len(said),
        bleu=bleu.corpus_score(said, [right]).score,
        chrf=chrf.corpus_score(said, [right]).score,
        exact=_exact(said, right),
        bleu_tokenised=tokenised,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        bleu_tokenised_signature=signature,
        buckets=tuple(_buckets(said, right, lengths, bleu)),
        tasks=tuple(_tasks(said, right, sources, bleu)),
        **(asdict(rouge(said, right)) if summaries else {}),
    )


def _refuse_unequal(hypotheses: int, references: int, lengths: int) -> None:
    if hypotheses != references:
        raise DataError(
            f"{hypotheses:,} translations but {references:,} references; give one line for each sentence on both sides, "
            "an empty one where nothing was translated"
        )
    if lengths != references:
        raise DataError(f"{lengths:,} source lengths but {references:,} references; give the length of each sentence's source")
    if not references:
        raise DataError("there is no sentence to evaluate; give at least one translation with its reference")


def _sentences(lines: Sequence[str], lower: bool) -> list[str]:
    """White space around a sentence is no part of it, as where sentence pairs are read."""
    return [line.strip().lower() if lower else line.strip() for line in lines]


def _exact(said: Sequence[str], right: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(said, right, strict=True)) / len(right)


def _tokenised(said: Sequence[str], right: Sequence[str], language: str) -> tuple[float, str]:
    """BLEU of the tokens of tokenizer.perl -no-escape, and its signature; English rules for a language Moses has none for."""
    from sacrebleu.metrics.bleu import BLEU
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    moses = MosesTokenizer(lang=language)
    said, right = ([moses.tokenize(line, escape=False, return_str=True) for line in lines] for lines in (said, right))
    # lowercase acts on the tokens, not on the text: which full stops end an abbreviation is told by case, too
    bleu = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    return bleu.corpus_score(said, [right]).score, str(bleu.get_signature())


def _buckets(said: Sequence[str], right: Sequence[str], lengths: Sequence[int], bleu: BLEU) -> Iterator[LengthBucket]:
    for shortest, longest in _edges(lengths):
        rows = [row for row, length in enumerate(lengths) if shortest <= length <= longest]
        yield LengthBucket(shortest, longest, *_of_rows(rows, said, right, bleu))


def _tasks(said: Sequence[str], right: Sequence[str], sources: Sequence[str], bleu: BLEU) -> Iterator[TaskMeasures]:
    rows_of: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        prompt = _PROMPT.match(source)
        if prompt is None:
            return
        rows_of.setdefault(prompt[1], []).append(row)
    if len(rows_of) <= _MOST_TASKS:
        for task in sorted(rows_of):
            yield TaskMeasures(task, *_of_rows(rows_of[task], said, right, bleu))


def _of_rows(rows: Sequence[int], said: Sequence[str], right: Sequence[str], bleu: BLEU) -> tuple[int, float | None, float]:
    some_said, some_right = [said[row] for row in rows], [right[row] for row in rows]
    return len(rows), _score(some_said, some_right, bleu), _exact(some_said, some_right)


def _score(said: list[str], right: list[str], bleu: BLEU) -> float | None:
    score = bleu.corpus_score(said, [right]).score
    return score if score or bleu.corpus_score(right, [right]).score else None


def _edges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(shortest, longest) of each bucket: steps of a round number from 1 on, as 1–10, 11–20 … in Bahdanau et al. 2015, figure 2.

    The step is the least of 1, 2, 5, 10, 20, 50 … that covers 99 % of the lengths with at most eight buckets; the last bucket
    takes the few that are longer as well. None is empty: of a step without a sentence nothing is told.
    """
    ranked = sorted(lengths)
    usual = ranked[-(-99 * len(ranked) // 100) - 1]  # so that one very long sentence does not push all others into one bucket
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
