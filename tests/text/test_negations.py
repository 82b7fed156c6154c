"""Generated opinions, and further examples for a classifier."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firth.errors import ConfigError
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.labelled import prepare_labelled
from firth.text.datasets.negations import negations

WORDS = TokenizerConfig("word")


def test_half_of_them_are_positive_and_none_comes_twice() -> None:
    sentences = negations(1000)
    assert Counter(label for _, label in sentences) == {"positive": 500, "negative": 500}
    assert len(dict(sentences)) == 1000
    assert negations(1000) == sentences
    assert negations(1000, seed=1) != sentences


def test_a_negation_reverses_what_a_word_says() -> None:
    told = dict(negations(20_000))
    pairs = [(text, text.replace(" is not ", " is ")) for text in told if text.startswith("this ") and " is not " in text]
    both = [(told[with_], told[without]) for with_, without in pairs if without in told]
    assert len(both) >= 3
    assert all(one != other for one, other in both)


def test_more_examples_are_for_training_alone(cache: Path, tmp_path: Path) -> None:
    rows = [f"text {n},{('negative', 'positive')[n % 2]}" for n in range(20)]
    (tmp_path / "some.csv").write_text("\n".join(["text,label", *rows]))
    (tmp_path / "other.csv").write_text("text,label\nanother text,positive\n")
    data = LabelledConfig(path=str(tmp_path / "some.csv"), valid=0.25)
    more = LabelledConfig(path=data.path, valid=0.25, more=(str(tmp_path / "other.csv"), "negations"))
    plain, extended = (prepare_labelled(one, WORDS) for one in (data, more))
    assert (len(plain.train), len(extended.train)) == (15, 15 + 1 + 4000)
    assert plain.valid is not None
    assert extended.valid is not None
    assert len(plain.valid) == len(extended.valid) == 5
    assert extended.labels == ("negative", "positive")
    assert extended.sha256 != plain.sha256
    assert "another" in {extended.tokenizer.token(id) for id in range(extended.tokenizer.vocab)}


def test_more_examples_need_labels(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("text,label\na,x\nb,y\n")
    with pytest.raises(ConfigError, match=r'data.more contains "wiki8", which has no labelled texts'):
        prepare_labelled(LabelledConfig(path=str(tmp_path / "some.csv"), more=("wiki8",)), WORDS)
