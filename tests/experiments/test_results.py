"""The table of results: what follows from the recipes, and that README has it as it is now."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from shell import Firth

from firth.experiments.results import BEGIN, END, Result, markdown, result, row
from firth.shipped import shipped

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def made(**expected: Any) -> Result:
    one = result("some-recipe", {"data": {"name": "ptb"}, "expected": {"metric": "perplexity", **expected}})
    assert one is not None
    return one


def table_in(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8").partition(f"{BEGIN}\n")[2].partition(END)[0]


def test_the_pages_have_the_tables_as_they_are_now(firth: Firth) -> None:
    first = re.findall(r"^\| `(.+?)`", table_in("README.md"), re.MULTILINE)
    assert len(first) == 10
    assert f"FIRST := {' '.join(first)}\n" in (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert table_in("README.md") == firth("results", *first, "--brief").out, "the recipes changed: run `make results`"
    assert table_in("docs/results.md") == firth("results").out, "the recipes changed: run `make results`"


def test_a_recipe_without_a_result_is_named(firth: Firth) -> None:
    answer = firth("results", "helo")
    assert answer.code == 2
    assert 'no shipped recipe "helo" has a result. Did you mean "hello"?' in answer.err


def test_the_table_has_a_row_for_each_recipe_that_expects_something(firth: Firth) -> None:
    names = [name for name, recipe in shipped().items() if "expected" in recipe]
    lines = firth("results").out.splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == names
    assert len({line.count("|") for line in lines}) == 1
    rows = json.loads(firth("results", "--json").out)
    assert [one["recipe"] for one in rows] == names
    assert all(one[key] == shipped()[one["recipe"]]["expected"].get(key) for one in rows for key in ("measured", "published"))


@pytest.mark.parametrize(
    ("direction", "measured", "published", "told"),
    [
        ("lower", 85.8, 82.7, "+3.1 worse"),
        ("lower", 80, 82.7, "-2.7 better"),
        ("lower", 1.4612, 1.4697, "-0.0085 better"),
        ("lower", 82.7, 82.7, "+0.0 equal"),
        ("higher", 85.8, 82.7, "+3.1 better"),
        ("higher", 80.25, 82.7, "-2.45 worse"),
        ("lower", 85.8, None, ""),
        ("lower", None, 82.7, ""),
    ],
)
def test_the_gap_says_whether_it_is_a_miss(direction: str, measured: float | None, published: float | None, told: str) -> None:
    figures = {"measured": measured, "published": published}
    outcome = made(direction=direction, **{key: value for key, value in figures.items() if value is not None})
    assert row(outcome).gap == told
    assert outcome.gap == (float(told.partition(" ")[0]) if told else None)


def test_a_mean_over_seeds_says_how_many_and_how_far_apart() -> None:
    assert row(made(measured=41.14, seeds=3, spread=0.41)).measured == "41.14 ± 0.41 (3 seeds)"


def test_a_figure_over_random_batches_stands_beside_the_other(firth: Firth) -> None:
    cells = row(made(split="valid", measured=1.46, random_batches=200, measured_random=1.45, published=1.4697, source="a page"))
    assert (cells.metric, cells.measured, cells.published) == (
        "perplexity (valid)",
        "1.46 (random batches 1.45)",
        "1.4697 (a page)",
    )


def test_what_is_not_measured_yet_says_so(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {"data": {"name": "ptb"}, "expected": {"metric": "loss", "split": "test", "published": 4.5, "source": "a page"}}
    silent = {"data": {"text": "abc"}}
    monkeypatch.setattr("firth.experiments.results.shipped", lambda: {"waiting": waiting, "silent": silent})
    monkeypatch.setattr("firth.shipped.shipped", lambda: {"waiting": waiting, "silent": silent})
    assert firth("results").out.splitlines()[2:] == ["| `waiting` | ptb | loss (test) | 4.5 (a page) | not yet |  |  |  |"]
    told = [line.strip() for line in firth("recipes").out.splitlines()]
    assert told == ["waiting", "loss (test) not measured yet, published 4.5 (a page)", "silent", "not measured yet"]


def test_recipes_tells_what_was_measured_and_how_far_it_is_from_what_was_published(
    firth: Firth, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {
        "metric": "loss",
        "split": "valid",
        "published": 1.4697,
        "measured": 1.48,
        "random_batches": 200,
        "measured_random": 1.479,
        "minutes": 2.5,
        "hardware": "an abacus",
        "date": "2026-11-16",
    }
    monkeypatch.setattr("firth.shipped.shipped", lambda: {"mine": {"data": {"text": "a"}, "expected": expected}})
    told = firth("recipes").out.splitlines()[1].strip()
    assert told == ("loss (valid) 1.48 (random batches 1.479), published 1.4697, +0.0103 worse, about 2 minutes on a CPU")


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert r"| 3 (a \| b) |" in markdown([made(published=3, source="a | b")])


def test_into_changes_what_stands_between_the_markers_and_nothing_else(firth: Firth, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nan old table\n{END}\nafter — ß\n", encoding="utf-8")
    for _ in range(2):  # again: nothing more changes
        assert firth("results", "--into", page).out == ""
        assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n{firth('results').out}{END}\nafter — ß\n"
