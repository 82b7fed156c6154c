"""The options on the page come from the server, from the types that define them; the page's code names none of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from firth.config import choices as kinds_of
from firth.figures.dynamics import over_depth
from firth.figures.training import Against
from firth.inspection.dynamics import PresetName, evolve, preset
from firth.inspection.dynamics_matrices import MatrixKind
from firth.inspection.playground import ExampleName, MaskName, Settings, StepName, of_sentence
from firth.layers.attention.score import ScoreKind
from firth.layers.position import PositionKind
from firth.layers.recurrent import CellKind
from firth.serving.lab.app import PAGE, contents
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.room import choices
from firth.serving.lab.rooms import ROOMS, rooms
from firth.serving.lab.rooms.dynamics import trajectory
from firth.serving.lab.rooms.playground import WITH_LIMIT
from firth.tasks import TASKS
from firth.vectors.map import Projection
from firth.vectors.wordvectors import Method

SCRIPTS = sorted(PAGE.rglob("*.js"))
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'')


def sent(room: str, control: str) -> list[dict[str, Any]]:
    """The options of a control as the page gets them."""
    told = contents(RunLibrary(), rooms())
    options: list[dict[str, Any]] = next(one for one in told["rooms"] if one["name"] == room)["choices"][control]
    return options


@pytest.mark.parametrize(
    ("room", "control", "kinds"),
    [
        ("playground", "score", ScoreKind),
        ("playground", "mask", MaskName),
        ("playground", "position", PositionKind),
        ("playground", "steps", StepName),
        ("dynamics", "preset", PresetName),
        ("dynamics", "P", MatrixKind),
        ("dynamics", "Q", MatrixKind),
        ("training", "against", Against),
        ("words", "method", Method),
        ("words", "projection", Projection),
    ],
)
def test_a_control_offers_exactly_the_kinds_of_its_type(room: str, control: str, kinds: object) -> None:
    assert sorted(one["value"] for one in sent(room, control)) == sorted(kinds_of(kinds))  # the one it opens with comes first
    assert all(one["label"] for one in sent(room, control))


def test_the_playground_offers_every_example() -> None:
    assert [one["value"] for one in sent("playground", "of")] == [*get_args(ExampleName), "sentence", "table"]


@pytest.mark.parametrize("name", [name for name, room in rooms().items() if "look" in room.choices(RunLibrary())])
def test_the_views_that_a_room_offers_are_those_it_has(name: str) -> None:
    assert [one["value"] for one in sent(name, "look")] == list(ROOMS[name].views)


def test_a_kind_without_a_label_is_shown_as_a_phrase() -> None:
    assert [one.label for one in choices(("scaled_dot", "cosine"), {"cosine": "cosine (QK-norm)"})] == [
        "scaled dot",
        "cosine (QK-norm)",
    ]


@pytest.mark.parametrize("mask", get_args(MaskName))
def test_a_mask_is_said_to_have_a_size_if_the_size_changes_it(mask: MaskName) -> None:
    one, three = (of_sentence("a b c d e", Settings(mask=mask, limit=limit)).weights for limit in (1, 3))
    assert ((one != three).any()) == (mask in WITH_LIMIT)
    assert next(choice for choice in sent("playground", "mask") if choice["value"] == mask)["limited"] == (mask in WITH_LIMIT)


@pytest.mark.parametrize("name", get_args(PresetName))
def test_a_preset_is_sent_with_its_own_settings(name: PresetName) -> None:
    usual = next(one for one in sent("dynamics", "preset") if one["value"] == name)["usual"]
    asked = trajectory(ViewRequest({"preset": name, **usual, "depth": 1, "beside": False}), RunLibrary(), lambda *_: None)
    system = preset(name)
    assert (usual["n"], usual["d"]) == system.v_nd.shape
    assert asked.figures["curves"].table.rows == over_depth({name: evolve(system, 1).curves}).table.rows


def strings(script: Path) -> set[str]:
    """Every string in a script, except for the names of controls."""
    code = re.sub(r'\bname: "\w+"', "", script.read_text(encoding="utf-8"))
    return {double or single for double, single in STRING.findall(code)}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_page_names_no_kind(script: Path) -> None:
    kinds = (ScoreKind, MaskName, PositionKind, CellKind, PresetName, MatrixKind, Method, Projection)
    named = strings(script) & {*TASKS.kinds, *(str(kind) for one in kinds for kind in kinds_of(one))}
    assert not named


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_page_decides_nothing_by_the_wording_of_a_text(script: Path) -> None:
    forbidden = r"\.(startsWith|endsWith|indexOf|lastIndexOf|match|matchAll|search|test)\("
    code = script.read_text(encoding="utf-8")
    assert not re.findall(forbidden, code)
    searched = re.findall(r"(\S*)\.includes\(", code)  # only the user's own search on the map of words
    assert searched == (["word.toLowerCase()"] if script.name == "labels.js" else [])
