from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Firth

from firth.inspection.playground import Settings, of_sentence
from firth.layers.attention.score import SCORES
from firth.layers.position import SCHEMES
from firth.vectors import WordVectors


def test_the_first_example_is_112_and_96(firth: Firth) -> None:
    lines = firth("playground").out.splitlines()
    rows = [line.split() for line in lines if line.startswith("Thinking")]
    assert rows == [
        ["Thinking", "112.00", "96.00"],
        ["Thinking", "14.00", "12.00"],
        ["Thinking", "14.00", "12.00"],
        ["Thinking", "0.88", "0.12"],
        ["Thinking", "0.88", "0.12"],
    ]
    assert "scaled   s = a / √64" in lines


def test_a_similar_name_finds_its_neighbours_role(firth: Firth) -> None:
    last = firth("playground", "--example", "roles", "--query", "Xiaomei").out.splitlines()[-1]
    assert last.startswith('"Xiaomei" is not a key. Approximate match: the largest weight is 0.9')
    assert last.endswith("for Xiaoming → student.")


def test_every_choice_reaches_the_numbers(firth: Firth) -> None:
    chosen = ("--score", "additive", "--mask", "window", "--limit", 3, "--position", "t5", "--scale", 0.5, "--heads", 2)
    answer = firth("playground", "a b c d", *chosen, "--width", 4, "--seed", 7, "--json")
    settings = Settings(score="additive", mask="window", limit=3, position="t5", scale=0.5, heads=2, width=4, seed=7)
    assert json.loads(answer.out) == json.loads(json.dumps(of_sentence("a b c d", settings).facts()))


def test_a_table_is_read_and_shown_on_a_page_without_its_markup(firth: Firth, tmp_path: Path) -> None:
    table, page = tmp_path / "table.txt", tmp_path / "page.html"
    table.write_text("Ann → <script>alert(1)</script>\nBo → cook\n", encoding="utf-8")
    answer = firth("playground", "--table", table, "--query", "Ann", "--scale", 100, "--save", page)
    assert answer.code == 0, answer.err
    assert f"{page}: 5 steps" in answer.out
    text = page.read_text(encoding="utf-8")
    assert "<h1>Attention step by step</h1>" in text
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_vectors_are_read_from_a_file(firth: Firth, tmp_path: Path) -> None:
    file = tmp_path / "v.firth"
    WordVectors(["a", "b"], np.array([[3, 4], [0, 1]], np.float32)).save(file)
    told = json.loads(firth("playground", "a b", "--vectors", file, "--score", "dot", "--json").out)
    assert told["steps"][0]["values"] == [[[25, 4], [4, 1]]]
    answer = firth("playground", "a c", "--vectors", file)
    assert answer.code == 2
    assert '"c" is not in the vocabulary of 2 words' in answer.err


def test_what_does_not_fit_together_is_refused(firth: Firth) -> None:
    for arguments, message in (
        (("a b", "--example", "roles"), "a sentence and --example cannot be combined"),
        (("--query", "x"), "--query needs a table to look it up in"),
        (("--table", "x"), "--table needs a query to look up"),
        (("--example", "scores", "--query", "x"), 'the example "scores" has its own query'),
        (("--example", "roles", "--vectors", "v.firth"), "--vectors does not apply to an example"),
        (("a", "--score", "cosin"), 'score is "cosin"; expected one of'),
    ):
        answer = firth("playground", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err


def test_help_names_every_score_and_position(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = firth("playground", "--help")
    assert [name for name in (*SCORES.kinds, *SCHEMES.kinds) if name not in answer.out] == []


def test_own_matrices_are_read_from_the_command_line_and_from_files(firth: Firth, tmp_path: Path) -> None:
    (tmp_path / "wk.csv").write_text("0,1\n1,0\n")
    (tmp_path / "more.json").write_text('{"W_v": [[1, 1], [0, 1]], "W_o": [[2, 0], [0, 2]]}')
    own = ("--matrix", "X=1 0; 0 1", "--matrix", "W_q=2 0; 0 2", "--matrix", f"W_k={tmp_path / 'wk.csv'}")
    answer = firth("playground", "a b", *own, "--matrices", tmp_path / "more.json", "--score", "dot", "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts["steps"][0]["values"] == [[[0, 2], [2, 0]]]
    assert facts["parameters"]["W_o"] == [[2, 0], [0, 2]]
    shown = firth("playground", "a b", *own).out
    assert "W_q      q = W_q x" in shown
    assert "values" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--matrix", "W_q=1 0; 0 1"), "--matrix and --matrices need a sentence. Add one"),
        (("a b", "--matrix", "W_q"), "expected a name and numbers or a file"),
        (("a b", "--matrix", "W_q=1", "--matrix", "W_q=2"), "W_q is defined twice"),
        (("a b", "--matrix", "W_q=none.csv"), "none.csv"),
        (("a b", "--matrix", "X=1 0; 0 1; 1 1"), "X is 3 × 2; expected 2 rows"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(firth: Firth, arguments: tuple[str, ...], message: str) -> None:
    answer = firth("playground", *arguments)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert message in answer.err
