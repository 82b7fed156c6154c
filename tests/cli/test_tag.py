"""firth tag, and the verbs that tell other things of a tagger."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shell import Firth, assert_refused
from tags import SPANS, tagger_table, trained_on_tags, write
from tomli_w import dumps

from firth.api import load


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_tags()


def test_each_sentence_has_a_line_with_a_tag_behind_each_word(firth: Firth, run: Path) -> None:
    answer = firth("tag", run, "the light bag falls", "She sees  the light")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "the/DET light/ADJ bag/NOUN falls/VERB\nShe/PRON sees/VERB the/DET light/NOUN\n"


@pytest.mark.parametrize("arguments", [(), ("-",), ("--file", "-")])
def test_standard_input_is_answered_line_by_line_and_empty_lines_are_kept(
    arguments: tuple[str, ...], firth: Firth, run: Path
) -> None:
    answer = firth("tag", run, *arguments, stdin=b"\xef\xbb\xbfthe bag\n\n  \r\nshe falls\r\na bag")
    assert answer.code == 0, answer.err
    assert answer.out == "the/DET bag/NOUN\n\n\nshe/PRON falls/VERB\na/DET bag/NOUN\n"


def test_a_file_has_a_sentence_per_line(firth: Firth, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("the bag\n" * 600, encoding="utf-8")
    assert firth("tag", run, "--file", path).out == "the/DET bag/NOUN\n" * 600


def test_json_has_words_tags_and_probabilities(firth: Firth, run: Path) -> None:
    tagged = json.loads(firth("tag", run, "--json", stdin=b"the bag\n\n").out)
    expected = load(run).tag(["the bag"])[0]
    assert tagged == [
        {"words": ["the", "bag"], "tags": ["DET", "NOUN"], "probabilities": list(expected.probabilities)},
        {"words": [], "tags": [], "probabilities": []},
    ]


def test_conll_goes_in_and_comes_out(firth: Firth, run: Path, tmp_path: Path) -> None:
    expected = "the\tDET\nbag\tNOUN\n\nshe\tPRON\nfalls\tVERB\n\n"
    conllu = b"# x\n1-2\tthebag\n1\tthe\tthe\tX\n2\tbag\n\n1\tshe\n2\tfalls\n"
    assert firth("tag", run, "--conll", stdin=conllu).out == expected, "as the run's own file: CoNLL-U"
    path = tmp_path / "w.conll"
    path.write_text("-DOCSTART-\n\nthe\nbag NN\n\nshe\nfalls\n", encoding="utf-8")
    model_columns = firth("tag", run, "--conll", "--file", path)
    assert model_columns.out == expected, model_columns.err


def test_what_cannot_be_tagged_is_one_line(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    for arguments, stdin, message in (
        ((run, "a", "--file", "b.txt"), b"", "texts and --file b.txt cannot be combined"),
        ((run, "a", "--conll"), b"", "--conll reads --file or standard input"),
        ((run, "--json", "--conll"), b"", "--conll and --json are different output formats; choose one"),
        ((run, "--conll"), b"1\n", "standard input:1 has 1 column; expected the word in column 2"),
        ((run, "--file", tmp_path / "absent.txt"), b"", "cannot read"),
        ((char_run, "a"), b"", "this run is a language model and cannot tag"),
    ):
        assert_refused(firth("tag", *arguments, stdin=stdin), message)
    assert_refused(firth("tag", run, stdin=b"the\n\xff\n"), "line 2 of standard input is not UTF-8", out="the/DET\n")


def test_a_tagger_is_trained_and_measured_from_the_shell(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(tagger_table(write(tmp_path / "a.conll"))), encoding="utf-8")
    trained = firth("train", recipe, "--out", tmp_path / "run")
    assert trained.code == 0, trained.err
    assert trained.out == f"{tmp_path / 'run'}: accuracy 1.0000 on the valid data. Next: firth tag {tmp_path / 'run'} SENTENCE\n"
    shown = firth("evaluate", tmp_path / "run").out
    assert re.match(
        r"text +valid\nwords +\d+ in 8 sentences\nloss +\d\.\d{4} nats per word\naccuracy +1\.0000\n"
        r"\ntag +words +precision +recall +F1\nADJ +\d+ +1\.0000 +1\.0000 +1\.0000\n",
        shown,
    )
    result = json.loads(firth("evaluate", tmp_path / "run", "--json").out)
    assert result.keys() == {
        *("loss", "accuracy", "f1", "precision", "recall", "f1_strict", "words", "sentences", "tags", "spans", "split")
    }
    assert result["f1"] is None


def test_spans_have_a_table_of_their_own(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(tagger_table(write(tmp_path / "a.conll", SPANS))), encoding="utf-8")
    trained = firth("train", recipe, "--out", tmp_path / "run")
    assert "F1 1.0000, accuracy 1.0000 on the valid data" in trained.out
    shown = firth("evaluate", tmp_path / "run").out
    assert re.search(r"F1 of spans +1\.0000 \(precision 1\.0000, recall 1\.0000\)\nF1, strict +1\.0000\n", shown)
    assert re.search(r"\nspan +spans +precision +recall +F1\nLOC +\d+ +1\.0000", shown)


def test_bad_files_are_one_line_that_names_the_place(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    path = tmp_path / "a.conll"
    recipe.write_text(dumps(tagger_table(path)), encoding="utf-8")
    for text, message in (
        ("a X\nb\n", "a.conll:2 has 1 column"),
        ("", "has no sentences"),
        ("a X\n", "all 1 words of"),
    ):
        path.write_text(text, encoding="utf-8")
        answer = firth("train", recipe, "--out", tmp_path / "run")
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err.splitlines()[-1]
        assert not (tmp_path / "run").exists()
