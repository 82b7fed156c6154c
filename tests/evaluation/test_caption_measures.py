"""Metrics of captions, against sacrebleu and rouge-score."""

from __future__ import annotations

import pytest
from sacrebleu import corpus_bleu

from firth.errors import DataError
from firth.evaluation.captions import measures

WRITTEN = ["a red circle above a small blue square", "three green stars", "a dog runs on the beach", "a cat"]
REFERENCES = [
    ["a red circle above a small blue square"],
    ["two green stars", "there are three green stars in the dark"],
    ["a dog is running on a sunny beach", "the dog runs on the sand", "a brown dog runs on the beach"],
    ["a cat"],
]


def test_the_measures_are_those_of_sacrebleu_and_rouge_score() -> None:
    scores = measures(WRITTEN, REFERENCES)
    columns = [[some[n] if n < len(some) else None for some in REFERENCES] for n in range(3)]
    assert scores.bleu == pytest.approx(corpus_bleu(WRITTEN, columns).score)  # type: ignore[arg-type]
    assert scores.exact == 0.5
    # imported here: absl, which it imports, would keep and later close the stream of whoever captures output
    rouge = pytest.importorskip("rouge_score.rouge_scorer", reason="needs rouge-score, the oracle of ROUGE")
    scorer = rouge.RougeScorer(["rouge1", "rouge2", "rougeL"])
    for name in ("rouge1", "rouge2", "rougeL"):
        best = [
            max(scorer.score(reference, text)[name].fmeasure for reference in some)
            for text, some in zip(WRITTEN, REFERENCES, strict=True)
        ]
        assert getattr(scores, name) == pytest.approx(100 * sum(best) / len(best))


def test_kinds_are_measured_separately_and_case_only_counts_if_it_was_kept() -> None:
    scores = measures(WRITTEN, REFERENCES, kinds=["b", "a", "b", "a"])
    assert [(one.kind, one.images, one.exact) for one in scores.kinds] == [("a", 2, 0.5), ("b", 2, 0.5)]
    assert measures(["A Cat"], [["a cat"]]).exact == 0
    assert measures(["a cat"], [["A  Cat"]], lower=True).exact == 1


def test_bleu_is_undefined_where_even_the_references_have_none() -> None:
    scores = measures(["seven", "two"], [["seven"], ["three"]])
    assert scores.bleu is None
    assert scores.exact == 0.5


def test_captions_without_references_are_refused() -> None:
    with pytest.raises(DataError, match="2 captions and 1 images"):
        measures(["a", "b"], [["a"]])
