"""firth classify, and the verbs that tell other things of a classifier."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from reviews import classifier_table, trained_on_reviews, write
from shell import Firth, assert_refused
from tomli_w import dumps

from firth.api import load


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_reviews()


def labels(out: str) -> list[str]:
    return [line.partition("\t")[0] for line in out.splitlines()]


def test_each_text_has_a_line_with_its_class_and_probability(firth: Firth, run: Path) -> None:
    answer = firth("classify", run, "a great film", "Dull, AWFUL")
    assert answer.code == 0
    assert labels(answer.out) == ["good", "bad"]
    expected = load(run).classify(["a great film"])[0]
    assert answer.out.splitlines()[0] == f"good\t{expected.probability:.4f}"
    assert "read as <unk>, never seen in training: dull," in answer.err


@pytest.mark.parametrize("arguments", [(), ("-",), ("--file", "-")])
def test_standard_input_is_answered_line_by_line_and_empty_lines_are_kept(
    arguments: tuple[str, ...], firth: Firth, run: Path
) -> None:
    answer = firth("classify", run, *arguments, stdin=b"\xef\xbb\xbflovely\n\n  \r\nawful\r\ngreat")
    assert answer.code == 0, answer.err
    assert labels(answer.out) == ["good", "", "", "bad", "good"]
    assert answer.out.endswith("\n")
    assert answer.err == ""  # neither a byte order mark nor a carriage return is a part of a word


def test_more_lines_than_are_read_at_once_are_all_answered_in_order(firth: Firth, run: Path) -> None:
    lines = ["lovely", "", "awful"] * 200
    answer = firth("classify", run, stdin="\n".join(lines).encode())
    assert labels(answer.out) == [{"lovely": "good", "": "", "awful": "bad"}[line] for line in lines]


def test_a_file_has_a_text_per_line_or_per_record(firth: Firth, run: Path, tmp_path: Path) -> None:
    plain = tmp_path / "texts.txt"
    plain.write_text("lovely\n\nawful\n", encoding="utf-8")
    assert labels(firth("classify", run, "--file", plain).out) == ["good", "", "bad"]
    reviews = [("lovely", "?"), ("awful", "?")]
    for suffix in ("csv", "tsv", "jsonl"):
        path = write(tmp_path / f"texts.{suffix}", reviews)
        assert labels(firth("classify", run, "--file", path).out) == ["good", "bad"]


def test_json_has_the_text_and_every_probability(firth: Firth, run: Path) -> None:
    classified = json.loads(firth("classify", run, "--json", stdin=b"lovely\r\n\n").out)
    assert [one["text"] for one in classified] == ["lovely", ""]
    assert [one["label"] for one in classified] == ["good", None]
    assert classified[0].keys() == {"text", "label", "probability", "probabilities"}
    assert classified[0]["probabilities"].keys() == {"bad", "good"}
    assert classified[1] == {"text": "", "label": None, "probability": None, "probabilities": None}


def test_where_nothing_comes_in_nothing_goes_out(firth: Firth, run: Path) -> None:
    assert firth("classify", run, stdin=b"").out == ""
    assert json.loads(firth("classify", run, "--json", stdin=b"").out) == []


def test_what_cannot_be_classified_is_one_line(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ((run, "a", "--file", "b.txt"), "texts and --file b.txt cannot be combined"),
        ((run, "--file", tmp_path / "absent.txt"), "cannot read"),
        ((run, "--file", write(tmp_path / "r.csv", header=("texts", "label"))), 'no column "text"'),
        ((char_run, "a"), "this run is a language model and cannot classify"),
    ):
        assert_refused(firth("classify", *arguments), message)
    (good,) = load(run).classify(["lovely"])
    shown = f"good\t{good.probability:.4f}\n"
    assert_refused(firth("classify", run, stdin=b"lovely\n\xff\n"), "line 2 of standard input is not UTF-8", out=shown)


def test_a_classifier_is_trained_and_measured_from_the_shell(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(classifier_table(write(tmp_path / "r.csv"))), encoding="utf-8")
    trained = firth("train", recipe, "--out", tmp_path / "run")
    assert trained.code == 0, trained.err
    assert trained.out == f"{tmp_path / 'run'}: accuracy 1.0000 on the valid data. Next: firth classify {tmp_path / 'run'} TEXT\n"
    assert "held-out accuracy 1.0000" in trained.err
    shown = firth("evaluate", tmp_path / "run").out
    summary, classes, confusion = shown.split("\n\n")
    assert re.fullmatch(
        r"text +valid\nexamples +16\nloss +\d\.\d{4} nats per text\naccuracy +1\.0000\nmacro F1 +1\.0000", summary
    )
    bad, good = (classes.splitlines()[n].split() for n in (1, 2))
    assert classes.splitlines()[0].split() == ["class", "examples", "precision", "recall", "F1"]
    assert [bad[0], good[0], *bad[2:], *good[2:]] == ["bad", "good"] + ["1.0000"] * 6
    assert int(bad[1]) + int(good[1]) == 16
    assert [line.split() for line in confusion.splitlines()[1:]] == [["bad", bad[1], "0"], ["good", "0", good[1]]]
    result = json.loads(firth("evaluate", tmp_path / "run", "--json").out)
    assert result.keys() == {"loss", "accuracy", "macro_f1", "examples", "classes", "confusion", "split"}
    refused = firth("generate", tmp_path / "run", "a")
    assert (refused.code, refused.out) == (2, "")
    assert "this run is a classifier" in refused.err


def test_squared_error_is_trained_selected_and_reported(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(classifier_table(write(tmp_path / "r.csv"), select="loss")), encoding="utf-8")  # type: ignore[arg-type]
    trained = firth("train", recipe, "--out", tmp_path / "run", "--objective.loss=squared-error")
    assert trained.code == 0, trained.err
    scores = load(tmp_path / "run").evaluate(split="valid")
    chances = [
        load(tmp_path / "run").classify([text])[0].probabilities[label]
        for text, label in (("lovely", "good"), ("awful", "bad"), ("a dull film", "bad"))
    ]
    assert all(chance > 0.5 for chance in chances)
    assert 0 < scores["loss"] < 0.1
    assert f"{scores['loss']:.4f} squared error per text" in firth("evaluate", tmp_path / "run").out
    assert firth("describe", tmp_path / "run").code == 0
    refused = firth("train", recipe, "--out", tmp_path / "no", "--objective.loss=hinge")
    assert (refused.code, "cross-entropy" in refused.err) == (2, True)


def test_a_page_shows_who_is_taken_for_whom(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", [("lovely", "bad"), ("lovely", "good"), ("awful", "bad"), ("dull", "bad")])
    answer = firth("evaluate", run, "--data", data, "--save", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    for row in ("<td>bad</td><td>good</td><td>1</td><td>0.3333</td>", "<td>good</td><td>good</td><td>1</td><td>1.0000</td>"):
        assert row in html
    assert "4 texts of" in html
    assert "75.00% of 4 texts" in html
    refused = firth("evaluate", char_run, "--save", tmp_path / "no.html")
    assert (refused.code, (tmp_path / "no.html").exists()) == (2, False)


def test_all_probabilities_are_sorted_by_falling_value(firth: Firth, run: Path) -> None:
    probability = load(run).classify(["awful"])[0].probabilities
    answer = firth("classify", run, "--all", stdin=b"awful\n\n")
    assert answer.out == f"bad\t{probability['bad']:.4f}\tgood\t{probability['good']:.4f}\n\n"


def test_where_nothing_is_held_out_the_training_text_is_measured(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(classifier_table(write(tmp_path / "r.csv"))), encoding="utf-8")
    assert "on the train data" in firth("train", recipe, "--out", tmp_path / "run", "--data.valid=0.0").out


def test_verify_compares_an_accuracy(firth: Firth, tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "r.csv"))
    expected = {"metric": "accuracy", "direction": "higher", "split": "valid", "tolerance": 0.01, "published": 0.9, "source": "x"}
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(table | {"expected": expected | {"measured": 1.0}}), encoding="utf-8")
    answer = firth("verify", recipe)
    assert answer.code == 0
    assert "reached accuracy 1.0000 on the valid split" in answer.out
    assert "published 0.9, a gap of +0.1000" in answer.out
    recipe.write_text(dumps(table | {"expected": expected | {"measured": 0.8}}), encoding="utf-8")
    assert firth("verify", recipe).code == 1


def test_standard_input_with_a_format_is_learned_from(firth: Firth, tmp_path: Path) -> None:
    table = classifier_table(Path("-"), steps=4)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(table | {"data": {"path": "-", "format": "csv"}}), encoding="utf-8")
    content = write(tmp_path / "r.csv").read_bytes()
    answer = firth("train", recipe, "--out", tmp_path / "run", stdin=content)
    assert answer.code == 0, answer.err
    assert load(tmp_path / "run").labels == ("bad", "good")
