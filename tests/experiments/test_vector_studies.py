"""Studies of word vectors: the runs are those of firth.vectors, and every setting reaches them or is refused."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from runs import recipe_table

import firth
from firth.errors import ConfigError, DataError
from firth.experiments.studies import trial, vectors_learner
from firth.experiments.studies.plan import StudyPlan, expect_same, plan
from firth.experiments.studies.report import StudyReport
from firth.experiments.studies.reproduce import reproduce
from firth.experiments.studies.study import find_study
from firth.experiments.studies.vectors_learner import CountedVectors, TrainedVectors
from firth.progress import silent
from firth.text.datasets import download
from firth.training import history, log
from firth.training.folder import RunFolder
from firth.vectors import evaluation
from firth.vectors.training_log import TrainingLog

WORDS: dict[str, Any] = {"corpus": "text.txt", "window": 2, "min_count": 1}
TRAINED: dict[str, Any] = {"dim": 9, "epochs": 3, "sample": 0.0}
TABLE: dict[str, Any] = {
    "summary": "Counting is as good as training",
    "seeds": 2,
    "settings": {"vectors": WORDS | TRAINED, "counts": WORDS},
    "arm": {
        "skipgram": {"vectors": {"loss": "ns", "negatives": 3}, "published": {"all": 0.5}},
        "narrow": {"vectors": {"dim": 7}},
        "ppmi": {"counts": {"svd": 4}, "about": "counted"},
    },
    "measure": {
        "all": {"metric": "analogies", "data": "questions.txt"},
        "semantic": {"metric": "analogies.semantic", "data": "questions.txt"},
        "syntactic": {"metric": "analogies.syntactic", "data": "questions.txt"},
        "covered": {"metric": "analogies.covered", "data": "questions.txt"},
        "spearman": {"metric": "similarity", "data": "pairs.txt"},
        "vocabulary": {"metric": "vocabulary", "digits": 0},
        "dim": {"metric": "vectors.dim", "arms": ["skipgram", "narrow"]},
        "tokens": {"metric": "tokens", "digits": 0},
    },
    "scale": {"small": {}, "short": {"seeds": 1, "overrides": {"vectors": {"epochs": 1}, "counts": {"window": 1}}}},
    "claim": [{"says": "The words are the same.", "check": "vocabulary(skipgram) <= vocabulary(ppmi)"}],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus and its tests, in the current folder."""
    draw = random.Random(0)
    people, verbs, drinks = ["king", "queen", "prince", "princess"], ["drinks", "orders"], ["tea", "coffee", "milk", "wine"]
    lines = [f"the {draw.choice(people)} {draw.choice(verbs)} {draw.choice(drinks)}" for _ in range(400)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    asked = ": family\nking queen prince princess\nking queen duke duchess\n: gram1-drinks\ntea coffee milk wine\n"
    (tmp_path / "questions.txt").write_text(asked)
    (tmp_path / "pairs.txt").write_text("king queen 9\ntea milk 8\nking tea 1\nthe wine 2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(table: dict[str, Any], out: str = "out", scale: str = "small") -> StudyPlan:
    Path("counting.toml").write_text(tomli_w.dumps(table))
    _, path, study = find_study("counting.toml")
    return plan(study, scale, Path(out), path.parent, None, silent)


def report(table: dict[str, Any], out: str = "out", scale: str = "small") -> StudyReport:
    runs = planned(table, out, scale)
    return StudyReport(
        "counting", find_study("counting.toml")[2], scale, runs, {job.folder: trial.run_job(job) for job in runs.jobs}
    )


def test_a_study_measures_the_vectors_that_training_gives() -> None:
    result = report(TABLE)
    given = {name: value for name, value in (WORDS | TRAINED).items() if name != "corpus"}
    questions, pairs = evaluation.read_questions("questions.txt"), evaluation.read_pairs("pairs.txt")
    for seed in (0, 1):
        alone = firth.vectors.train("text.txt", **given, negatives=3, seed=seed, deterministic=True, progress=False)
        kept = firth.vectors.load(f"out/runs/skipgram-{seed}/vectors.firth", progress=False)
        assert np.array_equal(kept.vectors, alone.vectors)
        solved = evaluation.analogies(alone, questions)
        for measure, of in (("all", solved.total), ("semantic", solved.semantic), ("syntactic", solved.syntactic)):
            assert result.values("skipgram", measure)[seed] == of.accuracy
        assert result.values("skipgram", "spearman")[seed] == evaluation.similarity(alone, pairs, "").spearman
    assert result.values("skipgram", "covered") == [2 / 3, 2 / 3]  # no duke
    assert result.values("skipgram", "vocabulary") == [11, 11]
    assert result.values("skipgram", "tokens") == [4 * 400 * 3] * 2
    assert result.values("narrow", "dim") == [7, 7]
    assert result.values("ppmi", "dim") == [None, None]
    counted = firth.vectors.cooccur("text.txt", window=2, svd=4, progress=False)
    assert np.array_equal(firth.vectors.load("out/runs/ppmi-1/vectors.firth", progress=False).vectors, counted.vectors)
    assert result.values("ppmi", "spearman") == [evaluation.similarity(counted, pairs, "").spearman] * 2
    assert [one.held for one in result.verdicts()] == [True]
    assert "published 0.5" in result.text()
    assert result.made()["torch"]
    rows = list(csv.DictReader(io.StringIO(result.csv())))
    assert len(rows) == 2 * (8 + 8 + 7)
    result.save("page.html")
    assert "word vectors" in Path("page.html").read_text()


def test_the_vectors_of_contexts_are_added_where_the_arm_says_so() -> None:
    arms = {"own": {"vectors": {}}, "both": {"vectors": {"add_contexts": True}}, "ppmi": {"counts": {}}}
    result = report(TABLE | {"arm": arms, "claim": [], "measure": {"spearman": TABLE["measure"]["spearman"]}}, scale="short")
    own, both = (firth.vectors.load(f"out/runs/{arm}-0/vectors.firth", progress=False) for arm in ("own", "both"))
    assert own.outputs is not None
    assert np.array_equal(both.vectors, own.vectors + own.outputs)
    pairs = evaluation.read_pairs("pairs.txt")
    assert result.values("both", "spearman") == [evaluation.similarity(both, pairs, "").spearman]


def test_finished_vectors_are_neither_trained_nor_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = report(TABLE, scale="short").facts()
    monkeypatch.setattr(TrainedVectors, "make", None)  # whoever trains now fails
    monkeypatch.setattr(CountedVectors, "make", None)
    assert report(TABLE, scale="short").facts() == first
    for place in Path("out").glob("runs/*/result.json"):
        place.unlink()
    assert report(TABLE, scale="short").facts() == first  # measured again, from the vectors


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"vectors": WORDS | {"dim": 9}}, {"vectors": WORDS | {"dim": 8}}, "vectors.dim = 9 instead of 8"),
        ({"counts": WORDS | {"svd": 4}}, {"counts": WORDS}, "counts.svd = 4 instead of None"),
        ({"counts": WORDS}, {"vectors": WORDS}, "counts instead of vectors"),
        ({"vectors": WORDS}, {"counts": WORDS}, "vectors instead of counts"),
        ({"recipe": "own.toml"}, {"vectors": WORDS}, "another kind of run"),
    ],
)
def test_vectors_of_another_study_are_refused(before: dict[str, Any], after: dict[str, Any], message: str) -> None:
    Path("own.toml").write_text(tomli_w.dumps(recipe_table(steps=1)))
    table = {"summary": "One arm", "measure": {"seconds": {"metric": "seconds"}}}
    (was,) = planned(table | {"seeds": 1, "arm": {"one": before}}).jobs
    trial.run_job(was)
    (now,) = planned(table | {"seeds": 1, "arm": {"one": after}}).jobs
    with pytest.raises(ConfigError, match=f"holds a finished run with {message}"):
        expect_same([now], {was.folder: was.asked})
    (was.folder / trial.RESULT).unlink()
    with pytest.raises(ConfigError, match="Choose another"):
        trial.run_job(now)


def test_an_interrupted_training_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = report(TABLE, "whole", "short")
    write, lines = TrainingLog.write, []

    def interrupted(self: TrainingLog, report: Any) -> None:
        write(self, report)
        lines.append(report)
        if len(lines) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLog, "write", interrupted)
    job = planned(TABLE, scale="short").jobs[0]
    with pytest.raises(KeyboardInterrupt):
        trial.run_job(job)
    assert not (job.folder / vectors_learner.VECTORS).exists()
    assert [one["outcome"] for one in history.read(RunFolder(job.folder))] == ["interrupted"]
    assert report(TABLE, "out", "short").facts()["arms"] == whole.facts()["arms"]
    assert len(log.read(RunFolder(job.folder).log)) == 2
    assert history.read(RunFolder(job.folder))[-1]["outcome"] == "finished"


def test_a_study_of_networks_and_vectors_hands_each_its_own_settings() -> None:
    Path("own.toml").write_text(tomli_w.dumps(recipe_table()))
    settings = TABLE["settings"] | {"training": {"steps": 3, "log_every": 1}}
    measures = {"seconds": {"metric": "seconds"}, "loss": {"metric": "loss", "arms": ["gru"]}}
    arms = TABLE["arm"] | {"gru": {"recipe": "own.toml"}, "skipgram": {"vectors": {}}}
    table = TABLE | {"settings": settings, "arm": arms, "measure": measures, "claim": []}
    result = report(table, scale="short")
    assert all(value is not None for arm in arms for value in result.values(arm, "seconds"))
    steps = [line["step"] for line in log.read(RunFolder(Path("out/runs/gru-0")).log)]
    assert steps == [1, 2, 3]
    result.save("page.html")  # with the losses of all arms


def test_each_gives_vectors_for_every_combination() -> None:
    arm = {"vectors": {"dim": 3}, "each": {"vectors.dim": [4, 5], "vectors.loss": ["ns", "hs"]}}
    runs = planned(TABLE | {"arm": {"many": arm, "ppmi": {"counts": {}}}, "measure": {"x": {"metric": "tokens"}}, "claim": []})
    learners = {job.arm: job.learner for job in runs.jobs if isinstance(job.learner, TrainedVectors)}
    chosen = {name: (one.config.dim, one.config.loss) for name, one in learners.items()}
    assert chosen == {f"{dim}-{loss}": (dim, loss) for dim in (4, 5) for loss in ("ns", "hs")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": TABLE["settings"] | {"training": {"steps": 3}}}, "training.steps is no setting of the arms with"),
        ({"settings": {"vectors": {"dimm": 3}}}, 'unknown key "vectors.dimm" in "vectors". Did you mean "dim"'),
        ({"settings": {"vectors": {"dim": 3}}}, '"vectors.corpus" is missing'),
        ({"settings": {"vectors": WORDS | {"corpus": "-"}}}, 'corpus is "-"'),
        ({"settings": {"vectors": WORDS | {"threads": 2}}}, "vectors.threads cannot be set in a study"),
        ({"settings": {"vectors": WORDS | {"device": "cuda"}}}, "vectors.device cannot be set in a study"),
        ({"settings": {"vectors": WORDS | {"loss": "hs", "negatives": 3}}}, 'vectors.negatives only applies to the loss "ns"'),
        ({"settings": {"vectors": WORDS | {"loss": "hs", "add_contexts": True}}}, "vectors.add_contexts needs vectors of"),
        ({"settings": {"vectors": WORDS | {"dim": 0}}}, "dim is 0"),
        ({"settings": {"vectors": WORDS}}, '"counts.corpus" is missing'),
        ({"settings": {"vectors": WORDS, "counts": WORDS | {"svd": 0}}}, "svd is 0"),
        ({"settings": {"vectors": WORDS, "counts": WORDS | {"dim": 3}}}, 'unknown key "counts.dim"'),
        ({"arm": {"x": {}}, "claim": []}, 'the arm "x" has none of recipe, vectors, counts, dynamics'),
        ({"arm": {"x": {"recipe": "hello", "vectors": {}}}, "claim": []}, 'the arm "x" has recipe and vectors'),
        ({"arm": TABLE["arm"] | {"x": {"vectors": {}, "after": "ppmi"}}}, "arm.x.after only applies to arms with a recipe"),
        ({"budget": {"equal": "steps", "to": "ppmi"}}, "the budget only applies to arms with a recipe"),
        ({"measure": {"all": {"metric": "loss"}}, "claim": []}, 'metric is "loss", which the word vectors of arm "skipgram"'),
        ({"measure": {"all": {"metric": "analogy"}}, "claim": []}, 'Did you mean "analogies"'),
        ({"measure": {"all": {"metric": "seconds_to(1)"}}, "claim": []}, "do not have"),
        ({"measure": {"all": {"metric": "analogies", "split": "test"}}, "claim": []}, "measure.all.split does not apply to word"),
        ({"measure": {"all": {"metric": "similarity"}}, "claim": []}, "measure.all needs data"),
        ({"measure": {"all": {"metric": "similarity.men", "data": "pairs.txt"}}, "claim": []}, "measure.all.data does not apply"),
        ({"measure": {"all": {"metric": "vectors.dimm"}}, "claim": []}, 'is no setting of these runs. Did you mean "dim"'),
    ],
)
def test_what_word_vectors_do_not_have_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    arms = {"skipgram": {"vectors": {}}, "ppmi": {"counts": {}}}
    table = TABLE | {"arm": arms, "measure": {"vocabulary": {"metric": "vocabulary"}}}
    with pytest.raises(ConfigError) as error:
        planned(table | change)
    assert message in str(error.value)


def test_a_missing_test_is_reported_before_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pairs.txt").unlink()
    job = planned(TABLE).jobs[0]
    monkeypatch.setattr(TrainedVectors, "make", None)  # whoever trains now fails
    with pytest.raises(DataError, match=r"pairs\.txt does not exist"):
        trial.run_job(job)


def test_the_corpus_is_also_found_beside_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = planned(TABLE).jobs[0]
    (tmp_path / "elsewhere").mkdir()
    _, path, study = find_study(tmp_path / "counting.toml")
    monkeypatch.chdir(tmp_path / "elsewhere")
    measures = {"vocabulary": study.measure["vocabulary"]}
    learner = plan(study, "short", Path("out"), path.parent, None, silent).jobs[0].learner
    assert learner.run(Path("out") / "one", measures).values == {"vocabulary": 11}
    assert learner.differences(Path("out") / "one") == []
    assert job.learner.differences(Path("out") / "one") == ["vectors.epochs = 1 instead of 3"]


@pytest.mark.usefixtures("firth_data")
def test_the_named_tests_are_those_of_evaluate() -> None:
    files = {"ws353": "EN-WS-353-ALL.txt", "simlex999": "EN-SIMLEX-999.txt", "men": "EN-MEN-TR-3k.txt"}
    rated = {name: evaluation.read_pairs(download.local("wordsim") / file) for name, file in files.items()}
    questions = evaluation.read_questions(download.local("analogy") / "questions-words.txt")
    draw = random.Random(0)
    words = [word for pairs in rated.values() for pair in pairs[:40] for word in (pair.a, pair.b)]
    words += ["boy", "girl", "brother", "sister"]
    Path("text.txt").write_text("\n".join(" ".join(draw.choices(words, k=9)) for _ in range(300)))
    measures = {"analogies": {"metric": "analogies"}} | {name: {"metric": f"similarity.{name}"} for name in [*files, "mean"]}
    arms = {"one": {"vectors": WORDS | {"dim": 9}}}
    result = report({"summary": "Named tests", "seeds": 1, "measure": measures, "arm": arms})
    vectors = firth.vectors.load("out/runs/one-0/vectors.firth", progress=False)
    expected = {name: evaluation.similarity(vectors, pairs, name).spearman for name, pairs in rated.items()}
    assert {name: result.values("one", name) for name in files} == {name: [value] for name, value in expected.items()}
    assert len(set(expected.values())) == 3
    assert result.values("one", "mean") == [pytest.approx(sum(value or 0 for value in expected.values()) / 3)]
    solved = evaluation.analogies(vectors, questions).total
    assert solved.covered
    assert result.values("one", "analogies") == [solved.accuracy]


@pytest.mark.long
def test_the_number_of_jobs_changes_no_vectors() -> None:
    planned(TABLE)
    one, three = (reproduce("counting.toml", out=str(jobs), jobs=jobs, progress=False) for jobs in (1, 3))
    assert one.facts()["arms"] == three.facts()["arms"] == report(TABLE).facts()["arms"]
