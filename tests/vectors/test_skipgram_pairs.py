"""The pairs of a text: known answers of the spec, the oracle's, and the same from every source."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Firth

import firth.vectors
from firth.errors import ConfigError
from firth.oracles import word2vec
from firth.vectors import skipgram_pairs

CAT = "there is a cat on the mat"
WAMPIMUK = "Marco saw a furry little wampimuk hiding in the tree"


def test_a_cat_on_the_mat_has_the_22_pairs_of_the_oracle() -> None:
    pairs = list(firth.vectors.pairs([CAT], window=2))
    assert len(pairs) == 22
    assert pairs == word2vec.pairs(CAT.split(), 2)


@pytest.mark.parametrize("window", [1, 3, 50])
def test_pairs_are_the_oracles_and_never_cross_a_sentence(window: int) -> None:
    draw = np.random.default_rng(0)
    sentences = [[f"w{n}" for n in draw.integers(0, 9, length)] for length in (1, 7, 12, 2)]
    expected = [pair for sentence in sentences for pair in word2vec.pairs(sentence, window)]
    assert list(firth.vectors.pairs(sentences, window=window)) == expected


def test_a_long_line_in_several_pieces_loses_no_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.text.readers import pieces

    monkeypatch.setattr(pieces, "PIECE", 16)
    (tmp_path / "text.txt").write_text(f"{WAMPIMUK}\n{CAT}\n", encoding="utf-8")
    expected = word2vec.pairs(WAMPIMUK.split(), 2) + word2vec.pairs(CAT.split(), 2)
    assert list(firth.vectors.pairs(tmp_path / "text.txt", window=2)) == expected


def test_a_sentence_is_split_where_training_splits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipgram_pairs, "LONGEST", 3)
    assert list(firth.vectors.pairs(["a b c d e"], window=4)) == word2vec.pairs(["a", "b", "c"], 4) + word2vec.pairs(
        ["d", "e"], 4
    )


def test_case_and_punctuation_are_removed_as_in_training() -> None:
    assert list(firth.vectors.pairs(["The cat, (asleep)."], lower=True, strip_punctuation=True)) == word2vec.pairs(
        ["the", "cat", "asleep"], 5
    )


def test_a_window_of_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="window is 0"):
        firth.vectors.pairs([CAT], window=0)


def test_the_verb_takes_a_sentence_a_file_and_standard_input(firth: Firth, tmp_path: Path) -> None:
    asked = ("--window", "2", "--word", "wampimuk")
    (tmp_path / "text.txt").write_text(f"{CAT}\n{WAMPIMUK}\n", encoding="utf-8")
    for text, stdin in (WAMPIMUK, b""), (tmp_path / "text.txt", b""), ("-", WAMPIMUK.encode()):
        answer = firth("vectors", "pairs", text, *asked, stdin=stdin)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == "wampimuk\tfurry\nwampimuk\tlittle\nwampimuk\thiding\nwampimuk\tin\n"
    printed = json.loads(firth("vectors", "pairs", CAT, "--window", "2", "--json").out)
    assert [(pair["centre"], pair["context"]) for pair in printed["pairs"]] == word2vec.pairs(CAT.split(), 2)


@pytest.mark.parametrize(
    ("text", "word", "message"),
    [("a b", "c", '"c" has no pairs'), ("nothing", None, "nothing does not exist"), ("a\nb", None, "this text has no pairs")],
)
def test_a_text_without_pairs_is_an_error(text: str, word: str | None, message: str, firth: Firth) -> None:
    answer = firth("vectors", "pairs", text, *(("--word", word) if word else ()))
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
