from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import ConfigError
from firth.files import TEMPORARY
from firth.vectors import phrases
from firth.vectors.phrases import Phrases, find_phrases, write_phrases

gensim_phrases = pytest.importorskip("gensim.models.phrases", reason="gensim is the oracle")


def text_with_phrases(sentences: int = 400) -> list[list[str]]:
    """Words at random, with "new york", "san francisco" and "los angeles times" thrown in."""
    generator = np.random.default_rng(0)
    made = []
    for _ in range(sentences):
        words = [f"w{int(n)}" for n in generator.geometric(0.05, 8)]
        match int(generator.integers(6)):
            case 0:
                words[3:3] = ["new", "york"]
            case 1:
                words[2:2] = ["san", "francisco"]
            case 2:
                words[5:5] = ["los", "angeles", "times"]
            case 3:
                words[4:4] = ["new"]
        made.append(words)
    return made


SENTENCES = text_with_phrases()


def oracle_score(
    worda_count: float, wordb_count: float, bigram_count: float, len_vocab: float, min_count: float, corpus_word_count: float
) -> float:
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


def oracle(discount: int, threshold: float) -> Any:
    return gensim_phrases.Phrases(SENTENCES, min_count=discount, threshold=threshold, scoring=oracle_score)


@pytest.mark.parametrize(("discount", "threshold"), [(5, 10.0), (1, 3.0), (2, 50.0)])
def test_scores_and_joined_sentences_are_gensims(discount: int, threshold: float) -> None:
    peer = oracle(discount, threshold)
    learned = find_phrases(SENTENCES, discount=discount, threshold=threshold)
    # gensim scores a pair that occurs `min_count` times as 0, which no threshold lets through; the rest must agree
    assert {"_".join(pair): score for pair, score in learned.scores.items()} == pytest.approx(peer.export_phrases())
    assert len(learned.scores) > 2
    assert [learned.join(sentence) for sentence in SENTENCES] == [list(peer[sentence]) for sentence in SENTENCES]
    assert list(learned.scores.values()) == sorted(learned.scores.values(), reverse=True)


def test_the_default_score_of_gensim_differs_by_vocabulary_over_words() -> None:
    """(count(ab) − δ) / count(a) / count(b) · V there, · N here."""
    peer = gensim_phrases.Phrases(SENTENCES, min_count=5, threshold=1e-9)
    V, N = len(peer.vocab), sum(map(len, SENTENCES))  # its vocabulary holds the pairs, too
    learned = find_phrases(SENTENCES, discount=5, threshold=1e-9)
    assert {"_".join(pair): score * V / N for pair, score in learned.scores.items()} == pytest.approx(peer.export_phrases())
    assert len(learned.scores) > 10


def test_looking_in_shares_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find_phrases(SENTENCES, discount=1, threshold=2)
    monkeypatch.setattr(phrases, "_PAIRS_HELD", 700)
    monkeypatch.setattr(phrases, "_AT_ONCE", 13)
    assert find_phrases(SENTENCES, discount=1, threshold=2).scores == whole.scores
    assert len(whole.scores) > 10


def test_pairs_do_not_reach_across_sentences_or_over_rare_words() -> None:
    assert not find_phrases(["a b c", "d e f"] * 20, discount=0, threshold=1).scores.keys() & {("c", "d"), ("f", "a")}
    rare = find_phrases([f"x rare{n} y" for n in range(20)], discount=5, threshold=0.1)
    assert ("x", "y") not in rare.scores


def test_a_word_is_part_of_one_phrase_and_the_left_one_wins() -> None:
    learned = Phrases({("a", "b"): 9.0, ("b", "c"): 99.0}, joiner="+")
    assert learned.join(["a", "b", "c", "b", "c", "a"]) == ["a+b", "c", "b+c", "a"]
    assert learned.join([]) == []
    assert learned.join(["a"]) == ["a"]


def test_a_file_keeps_its_lines_and_a_second_pass_joins_three_words(tmp_path: Path, cache: Path) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "out.txt"
    source.write_text("\n".join(" ".join(sentence) for sentence in SENTENCES) + "\n\n  Last   line \n")
    first = write_phrases(source, out, threshold=10)
    expected = [*(" ".join(first[0].join(sentence)) for sentence in SENTENCES), "", "Last line"]
    assert out.read_text().split("\n") == [*expected, ""]
    once, twice = write_phrases(source, out, threshold=10, passes=2)
    assert once.scores == first[0].scores
    assert ("los_angeles", "times") in twice.scores
    assert "los_angeles_times" in out.read_text()
    assert not [path for path in cache.iterdir() if path.name.startswith(TEMPORARY)]


def test_punctuation_can_be_stripped_before_phrases_are_found(tmp_path: Path, cache: Path) -> None:
    given = [f"w{n} (New York), v{n}!" for n in range(10)]
    (tmp_path / "in.txt").write_text("\n".join(given), encoding="utf-8")
    write_phrases(tmp_path / "in.txt", tmp_path / "out.txt", discount=5, threshold=1.0, strip_punctuation=True)
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [f"w{n} New_York v{n}" for n in range(10)]


def test_a_long_line_in_pieces_is_joined_like_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for sentence in SENTENCES for word in sentence]
    (tmp_path / "a.txt").write_text(" ".join(words))
    (learned,) = write_phrases(tmp_path / "a.txt", tmp_path / "whole.txt", threshold=10)
    assert (tmp_path / "whole.txt").read_text() == " ".join(learned.join(words)) + "\n"
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 4)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 5)
    write_phrases(tmp_path / "a.txt", tmp_path / "pieces.txt", threshold=10)
    assert (tmp_path / "pieces.txt").read_text() == (tmp_path / "whole.txt").read_text()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"discount": -1}, "discount is -1; expected at least 0"),
        ({"threshold": 0.0}, "threshold is 0.0; expected a number above 0"),
        ({"joiner": " "}, "joiner is ' '; expected a string without white space"),
        ({"joiner": ""}, "joiner is ''"),
        ({"passes": 0}, "passes is 0; expected at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        write_phrases(SENTENCES, tmp_path / "out.txt", **wrong)
    assert complaint in str(error.value)
    assert not (tmp_path / "out.txt").exists()
