"""Ideas from a file of one's own that define nothing but their mathematics are walked through, shown and described."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shares import half
from starlette.testclient import TestClient

import firth
from firth import ideas
from firth.api import compose, train_recipe
from firth.config import merged
from firth.errors import ConfigError
from firth.inspection.playground import Settings, of_sentence
from firth.inspection.walk import Walk, WalkMatrix
from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms.build import ROOM

FILE = Path(__file__).parent / "dummy_ideas.py"
TEXT = "the list is empty. a name is in the set."
TRANSFORMER = {"kind": "transformer", "depth": 1, "attention": {"heads": 2}}
NO_POSITION = {"position": {"kind": "none"}}
# sort → the settings that choose the dummy, the stage of the walk that shows it, a matrix there, its equation, lines of a cell
SHOWN: dict[str, tuple[dict[str, Any], str, str, str, list[str]]] = {
    "cell": (
        {"kind": "leaky"},
        "layer 1",
        "h",
        "h = h_t−1 + leak ⊙ (tanh(W x + b + U h_t−1 + b′) − h_t−1)",
        ["h_t−1", "leak", "Σ W x", "b", "Σ U h_t−1", "b′", "sum", "tanh(sum)"],
    ),
    "score": (
        {**TRANSFORMER, **NO_POSITION, "attention": {"heads": 2, "score": "city_block"}},
        "layer 1",
        "s",
        "s = −Σ |q − k|",
        ["Σ |q − k|", "a = −Σ |q − k|"],
    ),
    "position": (
        {**TRANSFORMER, "position": {"kind": "logarithmic"}},
        "layer 1",
        "b",
        "b = −ln(1 + |k − q|)",
        ["k − q", "|k − q|", "ln(1 + |k − q|)"],
    ),
    "norm": ({**TRANSFORMER, "norm": {"kind": "bounded"}}, "layer 1", "n", "n = tanh(x ⊙ alpha)", ["x", "alpha", "x ⊙ alpha"]),
    "activation": (
        {**TRANSFORMER, "feedforward": {"activation": "bilinear_unit"}},
        "layer 1",
        "z",
        "z = ReLU(g)² ⊙ u",
        ["g", "ReLU(g)", "ReLU(g)²", "u"],
    ),
    "mixer": (
        {**TRANSFORMER, **NO_POSITION, "attention": {"heads": 2, "kind": "fading"}},
        "layer 1",
        "ln g",
        "ln g = 0.5 · clamp(ln σ(W_gate_up (W_gate_down n) + b_gate_up) / 16)",
        [
            "Σ W_gate_up (W_gate_down n)",
            "b_gate_up",
            "sum",
            "ln σ(sum)",
            "ln σ(W_gate_up (W_gate_down n) + b_gate_up) / 16",
            "clamp(ln σ(W_gate_up (W_gate_down n) + b_gate_up) / 16)",
        ],
    ),
}


@pytest.fixture(scope="module")
def _used(use_in_module: Any) -> None:
    use_in_module(FILE)


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


def chosen(walked: Walk, stage: str, name: str) -> WalkMatrix:
    (one,) = [one for one in walked.stages if one.name == stage]
    return next(matrix for matrix in one.matrices() if matrix.name == name)


def assert_computed(walked: Walk) -> None:
    """Every stage is recomputed from the idea's own operations, and every cell ends in its number."""
    for stage in walked.stages:
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
    walked = firth.load(run, "cpu").walk("the list")
    assert_computed(walked)
    one = chosen(walked, stage, name)
    assert one.equation == equation
    assert [line.label for line in one.lines(3, 1)][:-1] == labels
    assert one.source.path.endswith("dummy_ideas.py")
    assert one.source.code in FILE.read_text(encoding="utf-8")


def asked(view: str, folder: Path, **given: Any) -> Any:
    """The facts that the lab answers with over HTTP."""
    with TestClient(build(RunLibrary([folder])), base_url="http://127.0.0.1:8421") as client:
        answer = client.post(f"/api/{view}", json=given).text
    return json.loads(answer.splitlines()[-1])["result"]["facts"]


def test_the_lab_walks_through_it(sort: str, run: Path) -> None:
    _, stage, name, equation, labels = SHOWN[sort]
    given: dict[str, Any] = {"run": "run", "text": "the list"}
    given["stage"] = [one["name"] for one in asked("walk/whole", run, **given)["stages"]].index(stage)
    matrices = asked("walk/stage", run, **given)["matrices"]
    which = next(n for n, one in enumerate(matrices) if one["name"] == name)
    assert matrices[which]["equation"] == equation
    lines = asked("walk/cell", run, **given, matrix=which, row=3, column=1)["lines"]
    assert [line["label"] for line in lines][:-1] == labels


def test_it_is_described(sort: str, run: Path) -> None:
    assert asked("describe/count", run, of="run")["parameters"] == sum(
        one.numel() for one in firth.load(run, "cpu").network.parameters()
    )


@pytest.mark.usefixtures("_used")
@pytest.mark.parametrize(
    ("settings", "equation"),
    half(
        itertools.starmap(
            pytest.param,
            [({"score": "city_block"}, "a = −Σ |q − k|"), ({"position": "logarithmic"}, "s = a / √8 − ln(1 + |k − q|)")],
        )
    ),
)
def test_the_playground_shows_it(settings: dict[str, str], equation: str, tmp_path: Path) -> None:
    text = "to be or not"
    steps = asked("playground/steps", tmp_path, of="sentence", text=text, **settings)["steps"]
    assert equation in [step["equation"] for step in steps]
    played, plain = of_sentence(text, Settings(**settings)), of_sentence(text, Settings())
    q_QD, k_KD = played.q_HQD[0], played.k_HKD[0]
    if "score" in settings:
        np.testing.assert_allclose(played.step("scores")[0], -np.abs(q_QD[:, None] - k_KD).sum(-1))
    else:
        away_QK = np.abs(np.arange(4) - np.arange(4)[:, None])
        np.testing.assert_allclose(played.step("scaled")[0], plain.step("scaled")[0] - np.log1p(away_QK))


@pytest.mark.usefixtures("_used")
def test_messages_and_help_name_it() -> None:
    assert ideas.own_kinds("attention score") == ("city_block",)
    with pytest.raises(ConfigError, match=r"expected one of scaled_dot, .*, city_block"):
        Settings(score="city")


@pytest.mark.usefixtures("_used")
@pytest.mark.parametrize(
    ("control", "kind"),
    [
        ("kind", "leaky"),
        ("score", "city_block"),
        ("position", "logarithmic"),
        ("norm", "bounded"),
        ("activation", "bilinear_unit"),
        ("mixer", "fading"),
    ],
)
def test_build_offers_and_counts_it(control: str, kind: str, tmp_path: Path) -> None:
    offered = ROOM.json(RunLibrary([]))["choices"][control]  # type: ignore[index]
    assert kind in [one["value"] for one in offered]
    assert kind in asked("build/count", tmp_path, **{control: kind})["recipe"]
