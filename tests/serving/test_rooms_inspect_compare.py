"""The views of Reading and Compare as functions: what they show is what the package says, and so is what their Python makes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from browsing import executed
from in_context_tables import linear_table, swap_table

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, FirthError
from firth.figures.figure import Figure
from firth.inspection.cost import layers
from firth.inspection.gradient_flow import compare_flow, flows_figure, model_kinds
from firth.serving.lab import streaming
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Cancelled
from firth.serving.lab.rooms import compare, describe, inspect
from firth.serving.lab.streaming import StreamedProgress
from firth.tasks.translation import TranslatorRun
from firth.training.folder import RunFolder

TEXT = "the list is empty"


def _quiet(what: str, done: int, total: int) -> None:
    pass


def ask(view: Callable[..., ViewResult], library: RunLibrary, **given: object) -> ViewResult:
    return view(ViewRequest(given), library, _quiet)


def _same(figure: Figure, other: Figure) -> None:
    assert figure.table.headings == other.table.headings
    assert [list(row) for row in figure.table.rows] == [list(row) for row in other.table.rows]


def _same_rows(figure: Figure, other: Figure, name: str) -> None:
    one, two = ([list(row) for row in each.table.rows if row[0] == name] for each in (figure, other))
    assert one == two != []


def test_a_reading_is_the_models_own(library: RunLibrary, char_run: Path, transformer_run: Path) -> None:
    gru, transformer = load(char_run), load(transformer_run)
    sentences = ["the list is empty", "list the type"]
    looks: list[tuple[Any, dict[str, object], Figure]] = [
        (inspect.predictions, {"run": "transformer", "text": TEXT, "top": "3"}, transformer.predictions(TEXT, top=3).figure()),
        (inspect.states, {"run": "char", "text": TEXT, "gate": "update", "units": 8}, gru.states(TEXT).figure(-1, "update", 8)),
        (inspect.flow, {"run": "char", "text": TEXT}, gru.flow(TEXT).figure()),
        (
            inspect.senses,
            {"run": "transformer", "word": "list", "sentences": "\n".join(sentences)},
            transformer.senses("list", sentences).figure(),
        ),
    ]
    for view, given, expected in looks:
        result = ask(view, library, **given)
        _same(next(iter(result.figures.values())), expected)
        names = executed(result.python)
        _same(names["figures"]["flow"] if "figures" in names else names["figure"], expected)


def test_a_gradient_is_also_shown_as_training_clips_it(library: RunLibrary, char_run: Path) -> None:
    result, model = ask(inspect.flow, library, run="char", text=TEXT), load(char_run)
    clip = model.recipe.training.clip
    assert result.facts["clip"] == clip
    _same(result.figures["clipped"], model.flow(TEXT).clipped(clip).figure())
    seen = (result, ask(inspect.predictions, library, run="char", text=TEXT))
    assert [(one.facts["tokens"], one.facts["before"]) for one in seen] == [(len(TEXT), ["↵"])] * 2


def test_a_gate_that_a_run_does_not_have_becomes_its_state(library: RunLibrary) -> None:
    assert ask(inspect.states, library, run="char", text=TEXT, gate="forget").facts["gate"] == "h"


@pytest.mark.parametrize(
    ("view", "given", "message"),
    [
        (inspect.predictions, {"run": "char", "text": ""}, "the text is empty"),
        (inspect.predictions, {"run": "char", "text": "x" * 100_000}, "the limit is 20,000"),
        (inspect.states, {"run": "transformer", "text": TEXT}, "recurrent"),
        (inspect.flow, {"run": "char", "text": ""}, "the text is empty"),
        (inspect.senses, {"run": "transformer", "word": "list", "sentences": "a list"}, "1 sentences; expected 2 to 12"),
        (inspect.senses, {"run": "transformer", "word": " ", "sentences": "a list\nb list"}, "the word is empty"),
        (inspect.senses, {"run": "transformer", "word": "list", "sentences": "a list\nnone"}, "list"),
        (compare.flow, {"length": "1"}, "expected a whole number from 2 to 500"),
        (compare.cost, {"longest": "100000"}, "expected a whole number from 128 to 8192"),
        (compare.lengths, {"runs": []}, "0 runs are selected; select 1 to 7"),
        (compare.lengths, {"runs": ["char"]}, "char: this run is a language model and cannot translate"),
        (compare.examples, {"runs": ["nosuch"]}, 'no run "nosuch"'),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_reason(
    view: Callable[..., ViewResult], given: dict[str, object], message: str, library: RunLibrary
) -> None:
    with pytest.raises(FirthError, match=message):
        ask(view, library, **given)


def test_fresh_models_are_compared_as_compare_flow_does() -> None:
    given: dict[str, Any] = {"length": 12, "size": 1000, "gain": 1.5, "seed": 3}
    result = ask(compare.flow, RunLibrary(), **given)
    _same(result.figures["flow"], flows_figure(compare_flow(**given)))
    _same(executed(result.python)["figure"], result.figures["flow"])


def test_what_was_computed_is_not_computed_again(monkeypatch: pytest.MonkeyPatch, char_run: Path, tmp_path: Path) -> None:
    def counted(module: ModuleType, name: str) -> list[object]:
        calls, function = [], getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **more: calls.append(given) or function(*given, **more))
        return calls

    monkeypatch.setattr(compare, "SECONDS", 0.001)
    monkeypatch.setattr(compare, "ROUNDS", 1)
    monkeypatch.setattr(compare, "model_kinds", lambda: ("rnn",))
    monkeypatch.setattr(compare, "layers", lambda: ("linear attention", "attention"))
    folder = shutil.copytree(char_run, tmp_path / "changing")
    library, flows, costs = RunLibrary([folder]), counted(compare, "compare_flow"), counted(compare, "measured")
    described = counted(describe, "describe")
    for _ in range(2):
        flow, cost = ask(compare.flow, library, length=5, size=1000), ask(compare.cost, library, longest=128, widest=64)
        count = ask(describe.count, library, of="changing")
    assert (len(flows), len(costs), len(described)) == (1, 2, 1)
    _same(ask(compare.flow, library, length=5, size=1000).figures["flow"], flow.figures["flow"])
    _same(ask(compare.cost, library, longest=128, widest=64).figures["cost"], cost.figures["cost"])
    ask(compare.flow, library, length=6, size=1000)
    assert len(flows) == 2
    later = RunFolder(folder).model.stat().st_mtime + 1
    os.utime(RunFolder(folder).model, (later, later))
    assert ask(describe.count, library, of="changing").table == count.table
    assert len(described) == 2


def test_each_model_is_drawn_as_soon_as_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_INTERVAL", 0.0)
    lines: list[dict[str, Any]] = []
    progress = StreamedProgress(lambda line: lines.append(json.loads(line)))
    compare.flow(ViewRequest({"length": 5, "size": 1000}), RunLibrary(), progress)
    drawn = [[trace["name"] for trace in line["part"]["figures"]["flow"]["plot"]["data"]] for line in lines if "part" in line]
    assert drawn == [list(model_kinds())[:n] for n in range(1, len(model_kinds()))]


def test_every_layer_is_timed_and_may_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "SECONDS", 0.01)
    monkeypatch.setattr(compare, "ROUNDS", 1)
    result = ask(compare.cost, RunLibrary(), longest=128, widest=64)
    assert {row[0] for row in result.figures["cost"].table.rows} == set(layers())
    told: list[str] = []

    def impatient(what: str, done: int, total: int) -> None:
        told.append(what)
        raise Cancelled

    with pytest.raises(Cancelled):
        compare.cost(ViewRequest({}), RunLibrary(), impatient)
    assert told == [f"{layers()[0]}: timing"]


def test_translators_are_compared_by_length(pair_library: RunLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    names, beams, evaluate = ["rnnsearch", "rnnenc"], [], TranslatorRun.evaluate
    fresh = RunLibrary([pair_library.path(name) for name in names])  # which has computed nothing yet
    with monkeypatch.context() as patched:
        patched.setattr(
            TranslatorRun, "evaluate", lambda self, *given, **more: beams.append(more["beam"]) or evaluate(self, *given, **more)
        )
        first = ask(compare.lengths, fresh, runs=names[:1], beam="2")
        assert beams == [2]
        result = ask(compare.lengths, fresh, runs=names, beam="2")
        assert beams == [2, 2]  # only the run that was added
    _same_rows(first.figures["exact"], result.figures["exact"], names[0])
    rows = result.figures["exact"].table.rows
    for name in names:
        buckets = load(pair_library.path(name)).evaluate(beam=2)["buckets"]
        expected = [[name, f"{one['sentences']}", f"{100 * one['exact']:.2f}"] for one in buckets]
        assert [[row[0], row[2], row[3]] for row in rows if row[0] == name] == expected
    _same(executed(result.python)["figures"]["bleu"], result.figures["bleu"])


def test_learning_in_context_is_compared_by_examples(tmp_path: Path) -> None:
    tables = {"transformer": swap_table(), "lstm": swap_table("lstm"), "linear": linear_table()}
    learners = RunLibrary([train_recipe(compose(table), tmp_path / name).path for name, table in tables.items()])
    assert [one.value for one in compare.offered(learners)["learners"]] == list(tables)
    assert not compare.offered(learners)["translators"]
    result = ask(compare.examples, learners, runs=["transformer", "lstm"])
    expected = load(learners.path("lstm")).evaluate()["by_examples"]
    column = result.figures["examples"].table.headings.index("lstm")
    accuracies = [float(row[column]) for row in result.figures["examples"].table.rows]
    np.testing.assert_allclose(accuracies, [row["accuracy"] for row in expected], atol=1e-4)
    _same(executed(result.python)["figure"], result.figures["examples"])
    with pytest.raises(ConfigError, match="trained on different tasks"):
        ask(compare.examples, learners, runs=["transformer", "linear"])
