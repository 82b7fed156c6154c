"""The room Playground, as the page asks it."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from firth.errors import FirthError
from firth.progress import silent
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms.playground import MATRICES, ROOM, steps


def asked(**settings: str) -> Any:
    return steps(ViewRequest({"of": "sentence", "text": "a b", **settings}), RunLibrary([]), silent)


def test_own_matrices_reach_the_figures_and_the_program() -> None:
    found = asked(matrices=MATRICES, score="dot")
    assert [step["name"] for step in found.facts["steps"]][-2:] == ["sums", "output"]
    assert found.facts["vectors"] == ["x", "W_q", "W_k", "W_v", "q", "k", "v", "W_o"]
    assert {"q", "k", "v", "W_o", "output"} <= set(found.figures)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(found.python, names)  # the program that the page shows
    assert names["played"].step("scores").tolist() == [[[0, 2], [2, 0]]]
    assert set(names["figures"]) == set(found.figures)


def test_without_matrices_there_is_no_output_step() -> None:
    assert [step["name"] for step in asked().facts["steps"]][-1] == "sums"
    assert [choice.value for choice in ROOM.choices(RunLibrary([]))["steps"]][-1] == "output"


def test_matrices_that_do_not_fit_are_told() -> None:
    with pytest.raises(FirthError, match="X is 1 × 2; expected 2 rows, one for each word"):
        asked(matrices="X = 1 0")
    with pytest.raises(FirthError, match="the limit is 20,000"):
        asked(matrices="X = " + "1 " * 20_000)
