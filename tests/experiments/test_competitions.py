"""Competitions: entries are measured as `firth evaluate` measures them, and the rules are kept."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tomli_w import dumps

import firth
from firth.config import Table, merged
from firth.errors import ConfigError, DataError, FirthError
from firth.experiments.assignments import contest
from firth.experiments.assignments.assignment import Assignment, Competition, CompetitionBudget, read_assignment
from firth.experiments.assignments.contest import entry_result
from firth.experiments.assignments.contestant import answer_of
from firth.experiments.assignments.grade import grade_folder
from firth.experiments.assignments.make import make_assignment
from firth.experiments.assignments.overlap import WINDOW, overlap
from firth.experiments.assignments.submissions import Submission

WORDS = ("the", "a", "list", "of", "names", "is", "in", "set", "empty", "has", "one", "two", "word", "tokens", "model", "state")


def sentences(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return "".join(" ".join(draw.choice(WORDS) for _ in range(9)).capitalize() + ".\n" for _ in range(count))


HIDDEN = sentences(30, 2)
RECIPE: Table = {
    "data": {"path": "train.txt"},
    "tokenizer": {"kind": "char"},
    "model": {"kind": "gru", "width": 16},
    "training": {"steps": 12, "batch": 4, "context": 16, "rate": 0.01, "log_every": 1},
}


@pytest.fixture
def rules(tmp_path: Path) -> Competition:
    (tmp_path / "train.txt").write_text(sentences(100, 1), encoding="utf-8")
    (tmp_path / "hidden.txt").write_text(HIDDEN, encoding="utf-8")
    budget = CompetitionBudget(parameters=5000, tokens=1000)
    return Competition(str(tmp_path / "hidden.txt"), str(tmp_path / "train.txt"), budget, minutes=3)


class Entrant:
    """Puts a recipe where its process finds it, and measures it in this process."""

    def __init__(self, folder: Path, rules: Competition) -> None:
        self.folder, self.rules = folder, rules
        (folder / "entry").mkdir()

    def __call__(self, changes: Table | None = None, rules: Competition | None = None, **files: str) -> dict[str, Any]:
        for name, text in files.items():
            (self.folder / "entry" / f"{name}.txt").write_text(text, encoding="utf-8")
        recipe = self.folder / "entry" / "recipe.toml"
        recipe.write_text(dumps(merged(RECIPE, changes or {})), encoding="utf-8")
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        return answer_of("recipe", self.folder, rules or self.rules)


@pytest.fixture
def entered(tmp_path: Path, rules: Competition, monkeypatch: pytest.MonkeyPatch) -> Entrant:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    return Entrant(tmp_path, rules)


# Measuring


def test_an_entry_gets_what_training_and_evaluating_its_recipe_gives(entered: Entrant, tmp_path: Path) -> None:
    answer = entered()
    table = merged(RECIPE, {"data": {"path": str(tmp_path / "train.txt")}, "training": {"device": "cpu"}})
    run = firth.train(table, tmp_path / "own", progress=False)
    expected = run.evaluate(tmp_path / "hidden.txt", progress=False)
    assert answer["bits_per_character"] == pytest.approx(expected["bits_per_character"], rel=1e-12)
    text = HIDDEN.rstrip("\n")
    assert np.log2(answer["perplexity_per_word"]) == pytest.approx(answer["bits_per_character"] * len(text) / len(text.split()))
    assert (answer["parameters"], answer["tokens"]) == (firth.describe(run).parameters, 12 * 4 * 16)


def test_a_training_ends_with_its_seconds_and_the_weights_so_far_are_measured(entered: Entrant, rules: Competition) -> None:
    short = replace(rules, budget=CompetitionBudget(seconds=1e-6))
    answer = entered({"training": {"steps": 100_000, "log_every": 1000}}, short)
    assert answer["note"].startswith("stopped after")
    assert 0 < answer["tokens"] < 5 * 64
    assert 2 < answer["bits_per_character"] < 8


def test_a_trained_run_is_measured_without_its_data(rules: Competition, tmp_path: Path) -> None:
    table = merged(RECIPE, {"data": {"path": str(tmp_path / "train.txt")}})
    run = firth.train(table, tmp_path / "entry", progress=False)
    expected = run.evaluate(tmp_path / "hidden.txt", progress=False)
    (tmp_path / "train.txt").unlink()
    answer = answer_of("run", tmp_path, replace(rules, runs=True, budget=CompetitionBudget(5000)))
    assert answer["bits_per_character"] == pytest.approx(expected["bits_per_character"], rel=1e-12)
    with pytest.raises(DataError, match=r"parameters; the budget is 50\."):
        answer_of("run", tmp_path, replace(rules, budget=CompetitionBudget(50)))
    with (tmp_path / "entry" / "model.safetensors").open("ab") as file:
        file.truncate(20 << 20)
    with pytest.raises(DataError, match="parameters need"):
        answer_of("run", tmp_path, rules)


# The rules


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"width": 64}}, "parameters; the budget is 5,000"),
        ({"training": {"steps": 50}}, "trains on 3,200 tokens; the budget is 1,000"),
        ({"data": {"path": "/etc/passwd"}}, "name of a file beside the recipe"),
        ({"data": {"path": "../hidden.txt"}}, "name of a file beside the recipe"),
        ({"data": {"path": "hidden.txt"}}, "Only train.txt may be used"),
        ({"data": {"path": "-"}}, "Only train.txt may be used"),
        ({"data": {"valid_path": "/etc/passwd"}}, "name of a file beside the recipe"),
        ({"data": {"name": "docs"}}, "data.name is set"),
        ({"data": {"more": ["docs"]}}, "data.more is set"),
        ({"data": {"test_path": "x"}}, "data.test_path is set"),
        ({"training": {"init": "/run"}}, "training.init is set"),
        ({"training": {"log_to": ["wandb"]}}, "training.log_to is set"),
        ({"model": {"embedding": {"vectors": "x"}}}, "model.embedding.vectors is set"),
        ({"model": {"vectors": "x"}}, "model.vectors is set"),
        ({"tokenizer": {"kind": "word"}}, "does not keep every character"),
        ({"model": {"family": "encoder", "kind": "transformer"}, "objective": {"kind": "masked"}}, "of language models"),
        ({"modle": {}}, 'unknown key "modle"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_entry_that_breaks_a_rule_is_refused_by_name(entered: Entrant, changes: Table, message: str) -> None:
    with pytest.raises(FirthError) as refused:
        entered(changes)
    assert message in str(refused.value)


def test_a_text_of_ones_own_needs_permission_and_may_not_contain_the_hidden_one(entered: Entrant, rules: Competition) -> None:
    own = replace(rules, own_text=True)
    mine: Table = {"data": {"path": "mine.txt"}}
    assert entered(mine, own, mine=sentences(100, 3))["bits_per_character"] > 0
    with pytest.raises(ConfigError, match="Only"):
        entered(mine, rules, mine=sentences(100, 3))
    cheat = sentences(50, 4) + HIDDEN.upper().replace("\n", " \t ").replace(".", " – ") + sentences(50, 5)
    with pytest.raises(DataError, match="contains 100% of the hidden text; at most 2% are allowed"):
        entered(mine, own, mine=cheat)
    with pytest.raises(DataError, match="of the hidden text"):
        entered({"data": {"valid_path": "mine.txt"}}, own, mine=cheat)


def test_ideas_are_code_and_need_permission(rules: Competition, tmp_path: Path) -> None:
    folder = tmp_path / "ann"
    folder.mkdir()
    (folder / "recipe.toml").write_text(dumps(RECIPE))
    (folder / "ideas.py").write_text("1 / 0")
    result = entry_result(Submission("ann", folder), rules)
    assert result is not None
    assert result.refused == "It has ideas.py, but this competition takes no code of your own."


def test_a_folder_without_an_entry_is_none_and_a_run_needs_permission(rules: Competition, tmp_path: Path) -> None:
    folder = tmp_path / "ann"
    folder.mkdir()
    assert entry_result(Submission("ann", folder), rules) is None
    (folder / "run").mkdir()
    (folder / "run" / "format").write_text("1")
    for one, message in (
        (rules, "Hand in recipe.toml"),
        (replace(rules, runs=True, budget=CompetitionBudget()), "has no recipe.toml"),
    ):
        result = entry_result(Submission("ann", folder), one)
        assert result is not None
        assert message in str(result.refused)


@pytest.mark.parametrize("said", [b"", b"[]", b"3", b'{"x": 1}', b'{"refused": ', b"[" * 100_000])
def test_a_process_that_says_nonsense_is_a_refused_entry(said: bytes) -> None:
    assert contest._result("ann", said, 1, 2.0).refused is not None


def test_budgets_and_texts_are_checked_when_the_assignment_is_made(tmp_path: Path) -> None:
    toml = tmp_path / "race.toml"

    def written(**changes: Any) -> Assignment:
        toml.write_text(dumps({"name": "race", "competition": {"hidden": "hidden.txt", "train": "train.txt"} | changes}))
        return read_assignment(toml)

    for changes, message in (
        ({"budget": {"tokens": 0}}, "budget.tokens is 0"),
        ({"overlap": 2.0}, "overlap is 2.0"),
        ({"runs": True, "budget": {"seconds": 3.0}}, "cannot prove"),
        ({"minutes": 0.0}, "minutes is 0.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            written(**changes)
    with pytest.raises(DataError, match="which is not a file"):
        make_assignment(written(), "a long secret", tmp_path / "out", beside=tmp_path)
    (tmp_path / "hidden.txt").write_text(HIDDEN)
    (tmp_path / "train.txt").write_text(sentences(20, 8) + HIDDEN)
    with pytest.raises(DataError, match="the training text contains 100% of the hidden text"):
        make_assignment(written(), "a long secret", tmp_path / "out", beside=tmp_path)
    assert not (tmp_path / "out").exists()


# The overlap


def brute_force(training: str, hidden: str) -> float:
    def windows(text: str) -> set[str]:
        kept = "".join(one for one in text.casefold() if one.isalnum())
        return {kept[n : n + WINDOW] for n in range(len(kept) - WINDOW + 1)}

    wanted = windows(hidden)
    return len(wanted & windows(training)) / len(wanted)


@pytest.mark.parametrize("chunk", [50, 997, 1 << 20])
def test_the_overlap_is_that_of_comparing_all_windows(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.experiments.assignments.overlap._CHUNK", chunk)
    lines = HIDDEN.splitlines(keepends=True)
    texts = [
        sentences(40, 7),
        HIDDEN,
        "".join(lines[:9]) + sentences(9, 3) + "".join(lines[20:]),
        "日本語 " * 50 + lines[3] + lines[4],
        "",
    ]
    for n, text in enumerate(texts):
        (tmp_path / f"{n}.txt").write_text(text, encoding="utf-8")
    for other in (1, 2, 3):
        for n, text in enumerate(texts):
            expected = brute_force(text, texts[other])
            assert overlap(tmp_path / f"{n}.txt", tmp_path / f"{other}.txt") == pytest.approx(expected, abs=1e-12)
    with pytest.raises(DataError, match="Give a longer hidden text"):
        overlap(tmp_path / "1.txt", tmp_path / "4.txt")


# The whole


@pytest.mark.long
def test_a_leaderboard_of_entries_in_processes_of_their_own(rules: Competition, tmp_path: Path) -> None:
    assignment = Assignment("race", competition=replace(rules, own_text=True))
    made = make_assignment(assignment, "a long secret", tmp_path / "race")
    assert json.loads((made.grader / "keys.json").read_text()) == {}
    assert not (made.student / "hidden.txt").exists()
    folder = tmp_path / "class"
    for name, changes in {
        "ann": {},
        "bob": {"training": {"steps": 1}},
        "cat": {"model": {"width": 99}},
        "dan": {"training": {"rate": 1e9, "clip": 1e9, "optimizer": "sgd"}},
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "recipe.toml").write_text(dumps(merged(RECIPE, changes)), encoding="utf-8")
    (folder / "eve.toml").write_text("[[[")
    (folder / "fay").mkdir()
    report = grade_folder(folder, made.grader)
    rows = [tuple(row) for row in report.leaderboard().rows]
    assert [(row[0], row[1]) for row in rows[:2]] == [("1", "ann"), ("2", "bob")]
    refused = {row[1]: row[-1] for row in rows if row[0] == "–"}
    assert "the budget is 5,000" in refused["cat"]
    assert "is not valid TOML" in refused["eve"]
    assert "nan" in refused["dan"] or "finite" in refused["dan"] or "loss" in refused["dan"]
    assert refused["fay"] == "refused: There is no recipe.toml."
    assert not list(tmp_path.glob("firth-entry-*"))


@pytest.mark.long
def test_an_entry_that_takes_too_long_or_too_much_memory_is_refused(rules: Competition, tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(dumps(merged(RECIPE, {"training": {"steps": 10**9}})))
    free = replace(rules, budget=CompetitionBudget())
    slow = entry_result(Submission("slow", path), replace(free, minutes=0.4))
    assert slow is not None
    assert slow.refused == "It took more than 0.4 minutes."
    path.write_text(dumps(merged(RECIPE, {"model": {"width": 30_000}})))
    large = entry_result(Submission("large", path), replace(free, memory=1.0))
    assert large is not None
    assert "memory" in str(large.refused), large
