"""In a notebook: figures without a network, and results that say in a line what they are."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import tiny

import firth
from firth.experiments.verify import Verdict
from firth.figures.figure import Table
from firth.figures.ranking import ranking
from firth.inspection.alignment import Alignment
from firth.tasks.next_token import LanguageModelRun
from firth.vectors import WordVectors


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LanguageModelRun:
    trained = firth.train(tiny("transformer", width=8), tmp_path_factory.mktemp("runs") / "tiny", progress=False)
    assert isinstance(trained, LanguageModelRun)
    return trained


def test_the_output_of_a_figure_brings_plotly_and_fetches_nothing() -> None:
    shown = ranking([("</script><b>", 1.0), ("other", 0.5)], "cosine")._repr_html_()
    assert not re.search(r"<script[^>]*src|<link|://", shown)
    assert shown.count("</script>") == 1
    assert 1_000_000 < len(shown) < 3_000_000  # plotly.js, compressed


def test_two_figures_have_places_of_their_own() -> None:
    figure = ranking([("a", 1.0)], "cosine")
    first, second = (re.search('id="([^"]*)"', figure._repr_html_()) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first[1] != second[1]


def test_results_say_in_one_short_line_what_they_are(run: LanguageModelRun) -> None:
    results = [
        run,
        run.attention("1 times 2"),
        run.attention("1 times 2").figure(),
        run.predictions("1 times 2"),
        run.flow("1 times 2"),
        run.score(["1 times 2"])[0],
        run.senses("times", ["1 times 2", "2 times 2"]),
        WordVectors(["a", "b"], np.eye(2, dtype=np.float32)),
        firth.search.build(["one text", "another"]),
    ]
    for result in results:
        assert "\n" not in repr(result)
        assert type(result).__name__ in repr(result)
        assert len(repr(result)) < 200, repr(result)
    weights = sum(one.numel() for one in run.network.parameters())
    assert repr(run) == (
        f"<LanguageModelRun: {run.task.name}, {run.recipe.model.family}, transformer, {weights:,} parameters, "
        f"vocabulary {run.tokenizer.vocab}, cpu>"
    )
    assert "weights 1 × 2 × 10 × 10 (layers, heads, queries, keys)" in repr(run.attention("1 times 2"))


def test_word_vectors_are_a_small_table_in_which_words_stay_words() -> None:
    shown = WordVectors(["<b>", *"cdefghij"], np.ones((9, 2), np.float32))._repr_html_()
    assert "&lt;b&gt;, c, d" in shown
    assert "…" in shown


HOSTILE = "<script>alert(1)</script>"


def test_what_a_notebook_shows_needs_no_script_and_escapes_every_text(run: LanguageModelRun) -> None:
    """Small tables, which a notebook that is not trusted shows, too."""
    weights_TS = np.array([[0.25, 0.75], [1.0, 0.0]])
    verdict = Verdict(HOSTILE, "loss", 1.5, 1.5, None, 0.1, True, None, "test", None, None, None)
    shown = {
        "run": run,
        "score": run.score(["1 times 2"])[0],
        "attention": run.attention("1 times 2"),
        "alignment": Alignment((HOSTILE, "<eos>"), ("b", HOSTILE), {HOSTILE: weights_TS}),
        "table": Table((HOSTILE,), [(HOSTILE,)]),
        "verdict": verdict,
        "walk": run.walk("1 times 2"),
        "description": dataclasses.replace(firth.describe("gpt2"), name=HOSTILE),
    }
    for name, result in shown.items():
        html = result._repr_html_()
        assert html.startswith("<table"), name
        assert html.endswith("</table>"), name
        assert "<script" not in html, name
        assert len(html) < 20_000, name
        assert "\n" not in repr(result) or name == "table", name
    assert ">0.75</td>" in shown["alignment"]._repr_html_()
    assert "rgba(0,114,178,1.00)" in shown["alignment"]._repr_html_()
    assert "&lt;" in shown["attention"]._repr_html_()
    assert "<td>p = softmax(x Wᵀ + b)</td>" in shown["walk"]._repr_html_()


def test_a_large_matrix_is_a_figure() -> None:
    words = tuple(f"w{n}" for n in range(41))
    assert "DecompressionStream" in Alignment(words, words, {"α": np.eye(41)})._repr_html_()


NOTEBOOK = """
import firth
run = firth.train({recipe!r}, "run")
run
run.attention("1 times 2").figure(0)
firth.train({recipe!r}, "run")
"""


@pytest.mark.long
def test_a_notebook_shows_the_loss_the_run_and_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(tiny("transformer").toml(), encoding="utf-8")
    cells = [nbformat.v4.new_code_cell(line) for line in NOTEBOOK.format(recipe="tiny.toml").strip().splitlines()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=120).execute()
    _, trained, shown, drawn, again = (cell["outputs"] for cell in notebook["cells"])
    assert [output["output_type"] for output in trained] == ["display_data"]
    assert 'training <progress value="6" max="6"' in trained[0]["data"]["text/html"]
    assert "loss" in trained[0]["data"]["text/html"]
    assert "LanguageModelRun" in shown[0]["data"]["text/html"]
    assert "DecompressionStream" in drawn[0]["data"]["text/html"]
    assert "://" not in drawn[0]["data"]["text/html"]
    assert drawn[0]["data"]["text/plain"].startswith("<Figure: ")
    assert again[0]["ename"] == "RunError"
    assert "resume=True" in again[0]["evalue"]
