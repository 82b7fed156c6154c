"""The views of Reading and Compare as functions: what they show is what the package says, and so is what their Python makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import executed
from in_context_tables import linear_table, swap_table

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, FirthError
from firth.figures.figure import Figure
from firth.inspection.cost import LAYERS
from firth.inspection.gradient_flow import compare_flow, flows_figure
from firth.serving.lab.room import Asked, Cancelled, Shown
from firth.serving.lab.rooms import compare, reading
from firth.serving.lab.shelf import Shelf
from firth.tasks.translation import TranslatorRun

TEXT = "the list is empty"


def _quiet(done: float, of: float, message: str) -> None:
    pass


def ask(view: Callable[..., Shown], shelf: Shelf, **given: object) -> Shown:
    return view(Asked(given), shelf, _quiet)


def _same(figure: Figure, other: Figure) -> None:
    assert figure.table.headings == other.table.headings
    assert [list(row) for row in figure.table.rows] == [list(row) for row in other.table.rows]


def test_a_reading_is_the_models_own(shelf: Shelf, char_run: Path, transformer_run: Path) -> None:
    gru, transformer = load(char_run), load(transformer_run)
    sentences = ["the list is empty", "list the type"]
    looks: list[tuple[Any, dict[str, object], Figure]] = [
        (reading.predictions, {"run": "transformer", "text": TEXT, "top": "3"}, transformer.predictions(TEXT, top=3).figure()),
        (reading.states, {"run": "char", "text": TEXT, "gate": "update", "units": 8}, gru.states(TEXT).figure(-1, "update", 8)),
        (reading.flow, {"run": "char", "text": TEXT}, gru.flow(TEXT).figure()),
        (
            reading.senses,
            {"run": "transformer", "word": "list", "sentences": "\n".join(sentences)},
            transformer.senses("list", sentences).figure(),
        ),
    ]
    for view, given, expected in looks:
        shown = ask(view, shelf, **given)
        _same(next(iter(shown.figures.values())), expected)
        names = executed(shown.python)
        _same(names["figures"]["flow"] if "figures" in names else names["figure"], expected)


def test_a_gradient_is_also_shown_as_training_clips_it(shelf: Shelf, char_run: Path) -> None:
    shown, model = ask(reading.flow, shelf, run="char", text=TEXT), load(char_run)
    clip = model.recipe.training.clip
    assert shown.facts["clip"] == clip
    _same(shown.figures["clipped"], model.flow(TEXT).clipped(clip).figure())


def test_a_gate_that_a_run_does_not_have_becomes_its_state(shelf: Shelf) -> None:
    assert ask(reading.states, shelf, run="char", text=TEXT, gate="forget").facts["gate"] == "h"


@pytest.mark.parametrize(
    ("view", "given", "message"),
    [
        (reading.predictions, {"run": "char", "text": ""}, "the text is empty"),
        (reading.predictions, {"run": "char", "text": "x" * 100_000}, "the lab reads at most 20,000"),
        (reading.states, {"run": "transformer", "text": TEXT}, "recurrent"),
        (reading.flow, {"run": "char", "text": ""}, "the text is empty"),
        (reading.senses, {"run": "transformer", "word": "list", "sentences": "a list"}, "1 sentences; expected 2 to 12"),
        (reading.senses, {"run": "transformer", "word": " ", "sentences": "a list\nb list"}, "the word is empty"),
        (reading.senses, {"run": "transformer", "word": "list", "sentences": "a list\nnone"}, "list"),
        (compare.flow, {"length": "1"}, "expected a whole number from 2 to 500"),
        (compare.cost, {"longest": "100000"}, "expected a whole number from 128 to 8192"),
        (compare.lengths, {"runs": []}, "0 runs are chosen; expected 1 to 7"),
        (compare.lengths, {"runs": ["char"]}, "char is a run of next-token; expected one of translation"),
        (compare.examples, {"runs": ["nosuch"]}, 'no run "nosuch"'),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_reason(
    view: Callable[..., Shown], given: dict[str, object], message: str, shelf: Shelf
) -> None:
    with pytest.raises(FirthError, match=message):
        ask(view, shelf, **given)


def test_fresh_models_are_compared_as_compare_flow_does() -> None:
    given: dict[str, Any] = {"length": 12, "size": 4000, "gain": 1.5, "seed": 3}
    shown = ask(compare.flow, Shelf(), **given)
    _same(shown.figures["flow"], flows_figure(compare_flow(**given)))
    _same(executed(shown.python)["figure"], shown.figures["flow"])


def test_every_layer_is_timed_and_may_be_cancelled() -> None:
    shown = ask(compare.cost, Shelf(), longest=128, widest=64)
    assert {row[0] for row in shown.figures["cost"].table.rows} == set(LAYERS)
    told: list[str] = []

    def impatient(done: float, of: float, message: str) -> None:
        told.append(message)
        raise Cancelled

    with pytest.raises(Cancelled):
        compare.cost(Asked({}), Shelf(), impatient)
    assert told == ["timing"]


def test_translators_are_compared_by_length(pair_shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    names, beams, evaluate = ["rnnsearch", "rnnenc"], [], TranslatorRun.evaluate
    with monkeypatch.context() as patched:
        patched.setattr(
            TranslatorRun, "evaluate", lambda self, *given, **more: beams.append(more["beam"]) or evaluate(self, *given, **more)
        )
        shown = ask(compare.lengths, pair_shelf, runs=names, beam="2")
    assert beams == [2, 2]
    rows = shown.figures["exact"].table.rows
    for name in names:
        buckets = load(pair_shelf.path(name)).evaluate(beam=2)["buckets"]
        expected = [[name, f"{one['sentences']}", f"{100 * one['exact']:.2f}"] for one in buckets]
        assert [[row[0], row[2], row[3]] for row in rows if row[0] == name] == expected
    _same(executed(shown.python)["figures"]["bleu"], shown.figures["bleu"])


def test_learning_in_context_is_compared_by_examples(tmp_path: Path) -> None:
    tables = {"transformer": swap_table(), "lstm": swap_table("lstm"), "linear": linear_table()}
    learners = Shelf([train_recipe(compose(table), tmp_path / name).path for name, table in tables.items()])
    assert compare.usable(learners).names == tuple(tables)
    shown = ask(compare.examples, learners, runs=["transformer", "lstm"])
    expected = load(learners.path("lstm")).evaluate()["by_examples"]
    column = shown.figures["examples"].table.headings.index("lstm")
    found = [float(row[column]) for row in shown.figures["examples"].table.rows]
    np.testing.assert_allclose(found, [row["accuracy"] for row in expected], atol=1e-4)
    _same(executed(shown.python)["figure"], shown.figures["examples"])
    with pytest.raises(ConfigError, match="trained on different tasks"):
        ask(compare.examples, learners, runs=["transformer", "linear"])
