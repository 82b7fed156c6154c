"""Similarity and analogies: scipy and gensim are the oracles, and files are read as their authors ship them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import DataError
from firth.vectors import WordVectors, evaluation
from firth.vectors.evaluation import (
    AnalogyQuestion,
    ScoredPair,
    analogies,
    compositions,
    ranks,
    read_pairs,
    read_questions,
    similarity,
    spearman,
)

SECTIONS = {"capital": "semantic", "family": "semantic", "gram1-plural": "syntactic"}


def keyed(vectors: WordVectors) -> Any:
    peer = pytest.importorskip("gensim.models").KeyedVectors(vectors.dim)
    peer.add_vectors(list(vectors.words), vectors.vectors)
    return peer


def world(noise: float = 0.9) -> tuple[WordVectors, list[AnalogyQuestion]]:
    """Pairs whose difference is nearly the same within a section, many other words, and some of them in several cases."""
    generator = np.random.default_rng(0)
    vector: dict[str, Any] = {}
    questions = []
    for section in SECTIONS:
        offset, pairs = generator.standard_normal(24), []
        for n in range(12):
            a, b = f"{section[:3].title()}{n}", f"{section[:3]}{n}b"
            vector[a] = generator.standard_normal(24)
            vector[b] = vector[a] + offset + noise * generator.standard_normal(24)
            pairs.append((a, b))
        questions += [AnalogyQuestion(section, *x, *y) for x in pairs for y in pairs if x != y]
    for word in list(vector)[::5]:  # another form of the same word, very near it
        vector[word.upper()] = vector[word] + 0.05 * generator.standard_normal(24)
    vector |= {f"x{n}": generator.standard_normal(24) for n in range(900)}
    order = generator.permutation(len(vector))
    words = list(vector)
    vectors = WordVectors([words[n] for n in order], np.stack([vector[words[n]] for n in order]).astype(np.float32))
    return vectors, questions


def write(questions: list[AnalogyQuestion], path: Path) -> Path:
    lines, section = [], ""
    for q in questions:
        if q.section != section:
            section = q.section
            lines.append(f": {section}")
        lines.append(f"{q.a} {q.b} {q.c} {q.d}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("restrict", [300_000, 700])
@pytest.mark.parametrize("fold", [True, False])
def test_3cosadd_is_gensims_section_by_section(
    fold: bool, restrict: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_WORDS", 100)  # several blocks of both
    monkeypatch.setattr(evaluation, "_QUESTIONS", 37)
    vectors, questions = world()
    path = write(questions, tmp_path / "questions.txt")
    ours = analogies(vectors, read_questions(path), "add", restrict, fold)
    score, theirs = keyed(vectors).evaluate_word_analogies(str(path), restrict_vocab=restrict, case_insensitive=fold)
    assert ours.total.accuracy == pytest.approx(score)
    assert 0.1 < score < 0.95  # neither trivial nor hopeless
    for section, oracle in zip(ours.sections, theirs, strict=False):
        assert section.name == oracle["section"]
        assert (section.correct, section.covered) == (len(oracle["correct"]), len(oracle["correct"] + oracle["incorrect"]))


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")  # by gensim itself
def test_3cosmul_answers_as_gensims_search_does() -> None:
    vectors, questions = world()
    questions = questions[::9]
    oracle = keyed(vectors)
    expected = [oracle.most_similar_cosmul([q.b, q.c], [q.a], topn=1)[0][0] == q.d for q in questions]
    scores = analogies(vectors, questions, "mul", fold_case=False)
    assert scores.total.correct == sum(expected)
    assert scores.total.correct != analogies(vectors, questions, "add", fold_case=False).total.correct


def test_totals_are_the_sums_of_their_sections() -> None:
    vectors, questions = world()
    unknown = AnalogyQuestion("family", "nobody", "has", "these", "words")
    scores = analogies(vectors, [*questions, unknown])
    assert scores.total.questions == len(questions) + 1
    assert scores.total.covered == len(questions)
    assert scores.semantic.correct + scores.syntactic.correct == scores.total.correct > 0
    assert scores.syntactic == evaluation.AnalogySection(
        "syntactic", *[getattr(scores.sections[2], n) for n in ("correct", "covered", "questions")]
    )


def test_a_section_of_unknown_words_has_no_accuracy() -> None:
    vectors, _ = world()
    scores = analogies(vectors, [AnalogyQuestion("family", "nobody", "has", "these", "words")])
    assert (scores.total.covered, scores.total.accuracy) == (0, None)


def test_progress_ends_at_the_last_word() -> None:
    vectors, questions = world()
    told: list[tuple[str, int, int]] = []
    analogies(vectors, questions, progress=lambda *facts: told.append(facts))
    assert told[-1] == ("analogies, add", len(vectors), len(vectors))


@pytest.mark.parametrize("levels", [3, 20, 10_000])
def test_spearman_is_scipys_with_and_without_ties(levels: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(levels)
    x, y = generator.integers(0, levels, 200).astype(float), generator.integers(0, levels, 200).astype(float)
    y += x / 2
    assert ranks(x).tolist() == stats.rankdata(x).tolist()
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_spearman_of_nothing_to_rank_is_none() -> None:
    assert spearman(np.array([1.0]), np.array([2.0])) is None
    assert spearman(np.array([1.0, 1.0]), np.array([2.0, 3.0])) is None
    assert spearman(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == pytest.approx(1)


@pytest.mark.parametrize("fold", [True, False])
def test_similarity_is_gensims(fold: bool, tmp_path: Path) -> None:
    vectors, _ = world()
    generator = np.random.default_rng(4)
    names = [*vectors.words[:60], "Unknown"]
    pairs = [(*generator.choice(names, 2), f"{generator.integers(0, 11)}") for _ in range(120)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join("\t".join((a.lower() if n % 3 else a, b, s)) for n, (a, b, s) in enumerate(pairs)))
    scores = similarity(vectors, read_pairs(path), "pairs", fold)
    _, (rho, _), missing = keyed(vectors).evaluate_word_pairs(str(path), case_insensitive=fold)
    assert scores.spearman == pytest.approx(rho, abs=1e-9)
    assert 100 * (1 - scores.coverage) == pytest.approx(missing)
    assert 0 < scores.covered < scores.pairs == 120


def test_no_known_pair_has_no_correlation() -> None:
    vectors, _ = world()
    scores = similarity(vectors, [ScoredPair("nobody", "knows", 3.0)], "x")
    assert (scores.spearman, scores.covered, scores.coverage) == (None, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "tiger\tcat\t7.35\nbook\tpaper\t7.46\n",
        "tiger cat 7.35\n\nbook paper 7.46",
        "Word 1,Word 2,Human (mean)\ntiger,cat,7.35\nbook,paper,7.46\n",
        "# WordSim\ntiger;cat;7.35\nbook;paper;7.46\n",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\ntiger\tcat\tN\t7.35\t1\nbook\tpaper\tN\t7.46\t2\n",
    ],
)
def test_similarity_files_are_read_as_they_come(text: str, tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text(text)
    assert read_pairs(tmp_path / "pairs") == [ScoredPair("tiger", "cat", 7.35), ScoredPair("book", "paper", 7.46)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no word pairs"),
        ("tiger cat 7.35\nbook paper\n", 'line 2: "book paper"; expected two words and a score'),
        ("tiger cat 7.35\nbook paper many\n", 'line 2: "book paper many"'),
        ("tiger cat 7.35\nbook paper nan\n", 'line 2: "book paper nan"'),
    ],
)
def test_a_bad_similarity_file_is_told_by_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text(text)
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "pairs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (": family\n", "contains no questions"),
        ("a b c d\n", "line 1: a question before the first section"),
        (": family\na b c\n", 'line 2: "a b c"; expected four words'),
    ],
)
def test_a_bad_analogy_file_is_told_by_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "questions").write_text(text)
    with pytest.raises(DataError, match=message):
        read_questions(tmp_path / "questions")


def test_a_missing_file_tells_where_to_get_the_usual_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="firth data get wordsim"):
        read_pairs(tmp_path / "nothing")


def test_composition_adds_two_vectors_and_ranks_the_expected_word() -> None:
    words = ["czech", "currency", "koruna", "crown", "prague", "apple"]
    vectors = WordVectors(words, np.float32([[1, 0], [0, 1], [1.2, 1], [1, 1.01], [1, 0.1], [-1, -1]]))
    (composed,) = compositions(vectors, [("czech", "currency", "koruna")], topn=3)
    assert [word for word, _ in composed.neighbors] == ["crown", "koruna", "prague"]
    assert composed.rank == 2
    (unknown,) = compositions(vectors, [("german", "airline", "lufthansa")])
    assert (unknown.rank, unknown.neighbors) == (None, [])


def test_the_shared_files_are_read_whole(firth_data: Path) -> None:
    sizes = {"EN-WS-353-ALL.txt": 353, "EN-SIMLEX-999.txt": 999, "EN-MEN-TR-3k.txt": 3000}
    assert {name: len(read_pairs(firth_data / "wordsim" / name)) for name in sizes} == sizes
    questions = read_questions(firth_data / "analogy" / "questions-words.txt")
    assert (len(questions), len({question.section for question in questions})) == (19_544, 14)
