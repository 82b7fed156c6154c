"""Ideas from a file of one's own that define nothing but their mathematics are walked through, shown and described."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import firth
from firth import ideas
from firth.api import compose, train_recipe
from firth.config import merged
from firth.inspection.walk import Walk, WalkMatrix
from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary

FILE = Path(__file__).parent / "dummy_ideas.py"
TEXT = "the list is empty. a name is in the set."
# sort → the settings that choose the dummy, the stage of the walk that shows it, a matrix there, its equation, lines of a cell
SHOWN: dict[str, tuple[dict[str, Any], str, str, str, list[str]]] = {
    "cell": (
        {"kind": "leaky"},
        "layer 1",
        "h",
        "h = h_t−1 + leak ⊙ (tanh(W x + b + U h_t−1 + b′) − h_t−1)",
        ["h_t−1", "leak", "Σ W x", "b", "Σ U h_t−1", "b′", "sum", "tanh(sum)"],
    ),
}


@pytest.fixture(scope="module")
def _used() -> Iterator[None]:
    ideas.use(FILE)
    yield
    for place, origin in list(ideas._used.items()):
        for collection in ideas._COLLECTIONS:
            collection.leave(origin)
        del ideas._used[place]
    os.environ.pop(ideas.VARIABLE, None)
    for forget in ideas.changed:
        forget()


@pytest.fixture(scope="module", params=SHOWN)
def sort(request: pytest.FixtureRequest, _used: None) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(sort: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    usual = {
        "data": {"text": TEXT * 4},
        "tokenizer": {"kind": "char"},
        "model": {"width": 8},
        "training": {"steps": 1, "batch": 2, "context": 8, "device": "cpu"},
    }
    return train_recipe(compose(merged(usual, {"model": SHOWN[sort][0]})), tmp_path_factory.mktemp(sort) / "run").path


def chosen(found: Walk, stage: str, name: str) -> WalkMatrix:
    (one,) = [one for one in found.stages if one.name == stage]
    return next(matrix for matrix in one.matrices() if matrix.name == name)


def assert_computed(found: Walk) -> None:
    """Every stage is recomputed from the idea's own operations, and every cell ends in its number."""
    for stage in found.stages:
        inside = stage.matrices()
        if stage.kind != "output":
            assert (inside[-1].value - stage.out_Td).abs().max() < 1e-4
        for one in inside:
            for t, j in {(0, 0), (3, one.value.shape[1] - 1)}:
                lines = one.lines(t, j)
                seen = one.allowed is None or bool(one.allowed[t, j])
                assert not lines or not seen or abs(lines[-1].value - float(one.value[t, j])) < 1e-4, (one.name, lines)


def test_it_is_walked_through_in_its_own_operations(sort: str, run: Path) -> None:
    _, stage, name, equation, labels = SHOWN[sort]
    found = firth.load(run, "cpu").walk("the list")
    assert_computed(found)
    one = chosen(found, stage, name)
    assert one.equation == equation
    assert [line.label for line in one.lines(3, 1)][:-1] == labels
    assert one.source.path.endswith("dummy_ideas.py")
    assert one.source.code in FILE.read_text(encoding="utf-8")


def test_the_lab_walks_through_it(sort: str, run: Path) -> None:
    _, stage, name, equation, labels = SHOWN[sort]
    with TestClient(build(RunLibrary([run])), base_url="http://127.0.0.1:8421") as client:

        def asked(view: str, **given: Any) -> Any:
            answer = client.post(f"/api/walk/{view}", json={"run": "run", **given}).text
            return json.loads(answer.splitlines()[-1])["result"]["facts"]

        stages = [one["name"] for one in asked("whole", text="the list")["stages"]]
        number = stages.index(stage)
        matrices = asked("stage", text="the list", stage=number)["matrices"]
        which = next(n for n, one in enumerate(matrices) if one["name"] == name)
        assert matrices[which]["equation"] == equation
        lines = asked("cell", text="the list", stage=number, matrix=which, row=3, column=1)["lines"]
        assert [line["label"] for line in lines][:-1] == labels
