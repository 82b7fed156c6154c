"""firth threshold, and what a threshold changes in classify and evaluate; the csv report of evaluate."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from reviews import REVIEWS, classifier_table, write
from shell import Firth, assert_refused
from sklearn.metrics import classification_report

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.tasks.classification import ClassifierRun

TEXTS = ["a great film", "lovely", "awful", "awful dull", "great dull"]
MIXED = [("lovely", "bad"), ("a great film", "good"), ("awful", "bad"), ("dull", "good"), ("great dull", "bad")]


def table(folder: Path, steps: int = 3) -> Table:
    made = classifier_table(folder / "reviews.csv", steps=steps)
    made["data"] |= {"valid_path": str(folder / "valid.csv"), "test_path": str(folder / "test.csv")}
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that has hardly begun to learn, validated on texts that it does not all get right."""
    folder = tmp_path_factory.mktemp("reviews")
    for name, reviews in (("reviews", REVIEWS), ("valid", MIXED * 8), ("test", MIXED[:4])):
        write(folder / f"{name}.csv", reviews)
    return train_recipe(compose(table(folder)), folder / "run").path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def probability(run: Path, text: str, label: str) -> float:
    return float(load(run).classify([text])[0].probabilities[label])


def test_a_given_threshold_decides_for_the_last_class_or_a_named_one(firth: Firth, run: Path) -> None:
    p = probability(run, "lovely", "good")
    for options, expected in (
        (("--threshold", p - 0.001), "good"),
        (("--threshold", p + 0.001), "bad"),
        (("--threshold", 1 - p - 0.001, "--label", "bad"), "bad"),
        (("--threshold", 1 - p + 0.001, "--label", "bad"), "good"),
    ):
        answer = firth("classify", run, "lovely", *options)
        assert answer.out.split("\t")[0] == expected, answer.err
    assert firth("classify", run, "lovely", "--threshold", p + 0.001).out == f"bad\t{1 - p:.4f}\n"
    for options, message in (
        (("--threshold", 1.2), "the threshold is 1.2; expected a probability"),
        (("--label", "good"), 'the label "good" needs a threshold'),
        (("--threshold", 0.5, "--label", "god"), 'there is no class "god"; the classes are bad, good.'),
    ):
        refused = firth("classify", run, "lovely", *options)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err


def test_a_fitted_threshold_is_stored_and_used_until_it_is_removed(firth: Firth, run: Path) -> None:
    before = firth("classify", run, *TEXTS).out
    fitted = firth("threshold", run, "--for", "cost", "--false-negative", 100, "--json")
    assert fitted.code == 0, fitted.err
    threshold = json.loads(fitted.out)
    assert threshold["split"] == "valid"
    assert threshold["recall"] == 1.0  # a missed text costs too much
    given = firth("classify", run, *TEXTS, "--threshold", threshold["threshold"]).out
    assert firth("classify", run, *TEXTS).out == given != before
    assert json.loads((run / "threshold.json").read_text()) == threshold
    shown = firth("evaluate", run, "--split", "valid")
    assert f"threshold           good from a probability of {threshold['threshold']:.4f} on" in shown.out
    measured: dict[str, Any] = load(run).evaluate(split="valid")
    assert measured["classes"][1]["recall"] == threshold["recall"]
    assert measured["classes"][1]["precision"] == pytest.approx(threshold["precision"])
    assert measured["threshold"] == {"label": "good", "threshold": threshold["threshold"]}
    assert firth("threshold", run, "--remove").code == 0
    assert firth("classify", run, *TEXTS).out == before
    assert "threshold" not in load(run).evaluate()


def test_a_threshold_is_fitted_on_validation_data_and_never_on_test_data(firth: Firth, trained: Path, run: Path) -> None:
    model: ClassifierRun = load(run)
    threshold = model.fit_threshold()
    assert (threshold.split, threshold.examples) == ("valid", 40)
    refused = firth("threshold", run, "--data", trained.parent / "test.csv")
    assert (refused.code, "is the test data of this run" in refused.err) == (2, True)
    other = write(run.parent / "other.csv", MIXED)
    assert model.fit_threshold(path=other, save=False).examples == 5
    assert model.threshold is not None
    assert model.threshold.threshold == threshold.threshold  # not saved


def test_other_weights_forget_the_threshold(tmp_path: Path) -> None:
    write(tmp_path / "reviews.csv")
    run = train_recipe(compose(classifier_table(tmp_path / "reviews.csv", steps=3)), tmp_path / "run").path
    load(run).fit_threshold()
    assert load(run).threshold is not None
    train_recipe(compose(classifier_table(tmp_path / "reviews.csv", steps=20)), run, resume=True)
    assert load(run).threshold is None


def test_one_of_several_classes_must_be_named(firth: Firth, tmp_path: Path) -> None:
    reviews = [("a lovely film", "good"), ("awful", "bad"), ("a film", "so-so")] * 10
    path = train_recipe(compose(classifier_table(write(tmp_path / "r.csv", reviews), steps=3)), tmp_path / "run").path
    refused = firth("threshold", path)
    assert (refused.code, refused.err) == (
        2,
        "firth: a threshold needs a label, because there are more than two classes: bad, good, so-so.\n",
    )
    threshold = json.loads(firth("threshold", path, "--label", "so-so", "--json").out)
    assert threshold["label"] == "so-so"
    assert firth("classify", path, "a film", "--threshold", 0, "--label", "so-so").out.startswith("so-so\t")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"label": "good"}', '{"label": "nice", "threshold": 0.5}', '{"label": "good", "threshold": 7}']
)
def test_a_damaged_threshold_is_one_line(content: str, firth: Firth, run: Path) -> None:
    (run / "threshold.json").write_text(content)
    assert_refused(firth("classify", run, "lovely"), "threshold.json")


def test_the_csv_report_has_sklearns_numbers(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    assert firth("evaluate", run, "--split", "valid", "--report", path).code == 0
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row.pop("class"): row for row in csv.DictReader(file)}
    model: ClassifierRun = load(run)
    guessed = [one.label for one in model.classify([text for text, _ in MIXED])]
    expected = classification_report([label for _, label in MIXED] * 8, guessed * 8, output_dict=True, zero_division=0)
    assert list(rows) == list(expected)
    assert float(rows["accuracy"]["f1-score"]) == pytest.approx(expected.pop("accuracy"), abs=1e-12)
    for name, numbers in expected.items():
        assert {key: float(value) for key, value in rows[name].items()} == pytest.approx(numbers, abs=1e-12)
    for arguments, message in (
        ((char_run, "--report", path), "--report only applies to a classifier and a tagger; this run is a language model"),
        ((run, "--report", tmp_path / "r.html"), "--report writes csv, not r.html"),
    ):
        refused = firth("evaluate", *arguments)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err
    assert not (tmp_path / "r.html").exists()


def test_an_export_says_that_the_threshold_stays_behind(firth: Firth, run: Path, tmp_path: Path) -> None:
    export = ("export", run, "--format", "safetensors")
    assert "threshold" not in firth(*export, "--out", tmp_path / "before").err
    assert firth("threshold", run).code == 0
    answer = firth(*export, "--out", tmp_path / "after")
    assert answer.code == 0, answer.err
    assert "no export format stores the threshold of this run" in answer.err
