"""BLEU, ROUGE and exact match of captions. An image may have several reference captions: BLEU counts an n-gram that any of them
has, ROUGE takes the reference that fits best, and an exact match equals one of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from firth.errors import DataError
from firth.evaluation.metrics import own_values
from firth.evaluation.rouge import Rouge, rouge


@dataclass(frozen=True)
class KindMeasures:
    """The images of one kind, such as the scenes with a relation."""

    kind: str
    images: int
    exact: float


@dataclass(frozen=True)
class CaptionMeasures:
    images: int
    exact: float  # share of the captions that equal a reference, 0 to 1
    bleu: float | None  # 0 to 100; None if no reference has four tokens: even the references would score 0
    bleu_signature: str
    rouge1: float  # 0 to 100, see rouge.py
    rouge2: float
    rougeL: float
    kinds: tuple[KindMeasures, ...] = ()
    own: dict[str, float] = field(default_factory=dict)  # metrics from user files


def measures(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, lower: bool = False, kinds: Sequence[str] | None = None
) -> CaptionMeasures:
    """One caption, one or more references and, if given, one kind per image. `lower`: compare without case."""
    from sacrebleu.metrics.bleu import BLEU

    if not captions or len(captions) != len(references):
        raise DataError(f"{len(captions):,} captions and {len(references):,} images with references; expected equal numbers")
    captions = [_plain(caption, lower) for caption in captions]
    references = [[_plain(text, lower) for text in some] for some in references]
    bleu = BLEU(lowercase=lower, force=True)
    # sacrebleu wants the first references of all images, then the second ones, …; None where an image has no more.
    most = max(map(len, references))
    columns = [[some[n] if n < len(some) else None for some in references] for n in range(most)]
    score = bleu.corpus_score(captions, columns).score  # type: ignore[arg-type]
    signature = str(bleu.get_signature())
    firsts = [some[0] for some in references]
    defined = score > 0 or bleu.corpus_score(firsts, [firsts]).score > 0
    right = [caption in some for caption, some in zip(captions, references, strict=True)]
    return CaptionMeasures(
        images=len(captions),
        exact=sum(right) / len(right),
        bleu=score if defined else None,
        bleu_signature=signature,
        **asdict(_rouge(captions, references)),
        kinds=() if kinds is None else tuple(_by_kind(right, kinds)),
        own=own_values("texts", captions, firsts),
    )


def _rouge(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Rouge:
    each = [[rouge([caption], [reference]) for reference in some] for caption, some in zip(captions, references, strict=True)]
    best = ([max(getattr(one, name) for one in some) for some in each] for name in ("rouge1", "rouge2", "rougeL"))
    return Rouge(*(math.fsum(scores) / len(scores) for scores in best))


def _by_kind(right: Sequence[bool], kinds: Sequence[str]) -> Iterator[KindMeasures]:
    for kind in dict.fromkeys(sorted(kinds)):
        some = [good for good, other in zip(right, kinds, strict=True) if other == kind]
        yield KindMeasures(kind, len(some), sum(some) / len(some))


def _plain(text: str, lower: bool) -> str:
    line = " ".join(text.split())
    return line.lower() if lower else line
