"""BLEU and chrF against sacrebleu called directly and from its command line, the tokenised figure against a count by hand."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
import sacrebleu

from firth.errors import DataError
from firth.evaluation.translation import TranslationMeasures, measures

RIGHT = [
    "Ein Mann fährt mit dem Rad durch die Stadt.",
    "Zwei Hunde spielen im Schnee, einer bellt.",
    "Dr. Müller liest den Kindern ein Buch vor.",
    "Eine Frau singt.",
    "Die Kinder laufen über die große Wiese nach Hause.",
]
SAID = [
    "Ein Mann fährt mit dem Fahrrad durch die Stadt.",
    "Zwei Hunde spielen im Schnee, einer schläft.",
    "dr. Müller liest den Kindern ein Buch.",
    "",
    "Die Kinder laufen über die große Wiese nach Hause.",
]
LENGTHS = [9, 8, 8, 3, 12]


def measured(lower: bool = False, language: str | None = None) -> TranslationMeasures:
    return measures(SAID, RIGHT, LENGTHS, lower=lower, language=language)


@pytest.mark.parametrize("lower", [False, True])
def test_bleu_and_chrf_are_those_of_sacrebleu(lower: bool) -> None:
    seen = measured(lower)
    assert seen.bleu == sacrebleu.corpus_bleu(SAID, [RIGHT], lowercase=lower).score
    assert seen.chrf == sacrebleu.CHRF(lowercase=lower).corpus_score(SAID, [RIGHT]).score
    assert 0 < seen.bleu < 100
    case = "lc" if lower else "mixed"
    assert seen.bleu_signature == f"nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert seen.chrf_signature == f"nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"


def test_the_command_line_of_sacrebleu_gives_the_same_figures_and_signatures(tmp_path: Path) -> None:
    for name, lines in (("said", SAID), ("right", RIGHT)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "right", "-i", "said", "-m", "bleu", "chrf", "-w", "6", "-f", "json"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, encoding="utf-8").stdout
    bleu, chrf = json.loads(printed)
    seen = measured()
    assert (round(seen.bleu, 6), round(seen.chrf, 6)) == (bleu["score"], chrf["score"])
    assert (seen.bleu_signature, seen.chrf_signature) == (bleu["signature"], chrf["signature"])


def bleu_by_hand(said: list[str], right: list[str]) -> float:
    """BLEU of tokens between spaces, not smoothed."""
    pairs = [(a.split(), b.split()) for a, b in zip(said, right, strict=True)]
    log_precisions = 0.0
    for n in range(1, 5):
        matched = total = 0
        for a, b in pairs:
            ours, theirs = (Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)) for tokens in (a, b))
            matched += sum((ours & theirs).values())
            total += ours.total()
        log_precisions += math.log(matched / total) / 4
    h, r = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    return 100 * min(1.0, math.exp(1 - r / h)) * math.exp(log_precisions)


def test_the_tokenised_figure_is_that_of_moses_tokens_in_lower_case() -> None:
    said = ['Dr. Smith said: "no, I don\'t know it"!', "The dog (a small one) sat here & there."]
    right = ['dr. Smith says: "no, I don\'t know that"!', "The dog (a small one) lay here & there today."]
    # "Dr." keeps its full stop as an abbreviation Moses knows; "dr." loses it, unless a small letter follows.
    cut_said = ['dr. smith said : " no , i don \'t know it " !', "the dog ( a small one ) sat here & there ."]
    cut_right = ['dr . smith says : " no , i don \'t know that " !', "the dog ( a small one ) lay here & there today ."]
    seen = measures(said, right, [7, 9], lower=False, language="en")
    assert seen.bleu_tokenised == pytest.approx(bleu_by_hand(cut_said, cut_right), rel=1e-12)
    assert seen.bleu_tokenised_signature == f"nrefs:1|case:lc|eff:no|tok:none|smooth:none|version:{sacrebleu.__version__}"
    # Of a run that read lower case the reference is cut as the translation was: in lower case.
    folded = measures([line.lower() for line in said], right, [7, 9], lower=True, language="en")
    cut_right[0] = cut_right[0].replace("dr .", "dr.")
    assert folded.bleu_tokenised == pytest.approx(bleu_by_hand(cut_said, cut_right), rel=1e-12)


@pytest.mark.parametrize(
    ("language", "cut"), [("fr", "l' eau qu' il boit"), ("fr_CA", "l' eau qu' il boit"), ("de", "l ' eau qu ' il boit")]
)
def test_the_rules_of_moses_are_those_of_the_language(language: str, cut: str) -> None:
    seen = measures(["l'eau qu'il boit ici"], ["l'eau qu'il boit là"], [4], lower=False, language=language)
    assert seen.bleu_tokenised == pytest.approx(bleu_by_hand([f"{cut} ici"], [f"{cut} là"]), rel=1e-12)


def test_the_tokenised_figure_is_not_smoothed() -> None:
    seen = measures(["a b c x"], ["a b c d"], [4], lower=False, language="en")
    assert seen.bleu_tokenised == 0.0
    assert seen.bleu > 0  # sacrebleu's is


def test_without_a_language_there_is_no_tokenised_figure() -> None:
    assert (measured().bleu_tokenised, measured().bleu_tokenised_signature) == (None, None)


@pytest.mark.parametrize(("language", "tokens"), [("zh-CN", "zh"), ("ja", "char"), ("ko", "char"), ("de", "13a")])
def test_scripts_without_spaces_are_not_cut_at_spaces(language: str, tokens: str) -> None:
    seen = measures(["他喜欢吃红苹果"], ["他喜欢吃青苹果"], [6], lower=False, language=language)
    assert f"|tok:{tokens}|" in seen.bleu_signature
    assert (seen.bleu > 0) == (tokens != "13a")
    assert (seen.bleu_tokenised is None) == (tokens != "13a")  # Moses finds no words in them either


def test_exact_match_counts_equal_sentences_and_case_only_where_the_run_read_it() -> None:
    said, right = ["A b", " c d ", "e", ""], ["a b", "c d", "f", ""]
    assert measures(said, right, [2, 2, 1, 0], lower=False, language=None).exact == 0.5
    assert measures(said, right, [2, 2, 1, 0], lower=True, language=None).exact == 0.75


def edges(lengths: list[int]) -> list[tuple[int, int]]:
    lines = ["a b c d"] * len(lengths)
    return [(one.shortest, one.longest) for one in measures(lines, lines, lengths, lower=False, language=None).buckets]


def test_buckets_are_steps_of_a_round_number() -> None:
    assert edges(list(range(1, 61))) == [(n, n + 9) for n in range(1, 60, 10)]  # Bahdanau et al. 2015
    assert edges(list(range(6, 31))) == [(6, 10), (11, 15), (16, 20), (21, 25), (26, 30)]  # dates as strings
    assert edges([10] * 5) == [(10, 10)]
    assert edges([5, 6, 6, 8]) == [(5, 5), (6, 6), (8, 8)]  # no step is empty
    assert edges([0, 1, 12]) == [(0, 2), (11, 12)]  # an empty source is among the shortest
    assert edges([3] * 300 + [9] * 300 + [14] * 300 + [500]) == [(3, 4), (9, 10), (13, 500)]  # a stray one widens no step


@pytest.mark.parametrize("longest", [1, 4, 9, 17, 40, 41, 100, 777])
def test_every_sentence_is_in_one_bucket_and_buckets_are_few(longest: int) -> None:
    seen = edges([(7 * n * n) % longest + 1 for n in range(300)])
    assert len(seen) <= 8
    assert all(a <= b < c for (a, b), (c, _) in itertools.pairwise(seen))
    lines, lengths = ["a"] * 300, [(7 * n * n) % longest + 1 for n in range(300)]
    buckets = measures(lines, lines, lengths, lower=False, language=None).buckets
    assert [one.sentences for one in buckets] == [sum(one.shortest <= n <= one.longest for n in lengths) for one in buckets]
    assert min(one.sentences for one in buckets) > 0
    assert sum(one.sentences for one in buckets) == 300


def test_a_bucket_has_the_figures_of_its_own_sentences() -> None:
    lengths = [9, 8, 3, 3, 30]
    short, middle, long = measures(SAID, RIGHT, lengths, lower=False, language=None).buckets
    assert (short.sentences, middle.sentences, long.sentences) == (2, 2, 1)
    assert middle.bleu == sacrebleu.corpus_bleu(SAID[:2], [RIGHT[:2]]).score
    assert short.bleu == sacrebleu.corpus_bleu(SAID[2:4], [RIGHT[2:4]]).score
    assert (middle.exact, long.exact, long.bleu) == (0.0, 1.0, pytest.approx(100))


def test_a_bucket_of_sentences_too_short_for_bleu_has_none() -> None:
    said, right = ["a b", "x x x x x"], ["a b", "a b c d e"]
    short, long = measures(said, right, [2, 5], lower=False, language=None).buckets
    assert (short.bleu, short.exact) == (None, 1.0)
    assert long.bleu == 0.0  # that one is wrong, not short


def test_all_of_it_is_plain_json_data() -> None:
    plain = asdict(measured(language="de"))
    back = json.loads(json.dumps(plain, allow_nan=False))
    assert back == plain | {name: list(plain[name]) for name in ("buckets", "tasks", "by_skill")}
    assert set(back["buckets"][0]) == {"shortest", "longest", "sentences", "bleu", "exact"}


def test_translations_of_nothing_but_empty_lines_score_zero() -> None:
    seen = measures(["", ""], RIGHT[:2], [9, 8], lower=False, language="de")
    assert (seen.bleu, seen.chrf, seen.exact, seen.bleu_tokenised) == (0.0, 0.0, 0.0, 0.0)


def test_unequal_numbers_and_no_sentences_are_refused() -> None:
    with pytest.raises(DataError, match="2 translations but 3 references; give one line for each sentence on both sides"):
        measures(["a", "b"], ["a", "b", "c"], [1, 1, 1], lower=False, language=None)
    with pytest.raises(DataError, match="1 source lengths but 2 references; give the length"):
        measures(["a", "b"], ["a", "b"], [1], lower=False, language=None)
    with pytest.raises(DataError, match="no sentence to evaluate; give at least one"):
        measures([], [], [], lower=False, language=None)


def test_importing_it_does_not_import_what_it_may_not_need() -> None:
    code = "import sys, firth.evaluation.translation; print(*({'sacrebleu', 'sacremoses', 'torch'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.split() == []
