"""Abilities of runs: each has its verb, route, room and method, and each run lists the abilities it has."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from shell import Firth, firth
from starlette.testclient import TestClient

from firth.api import find_recipe, load
from firth.errors import ConfigError
from firth.serving.http.app import build
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models, ServedModel
from firth.serving.lab.rooms import ROOMS
from firth.tasks import TASKS
from firth.tasks.ability import ABILITIES, ATTENTION, CHAT, STATES, Ability, WrongTask

__all__ = ["firth"]

VERBS = importlib.import_module("firth.cli.verbs")


@pytest.mark.parametrize("ability", ABILITIES, ids=lambda one: one.name)
def test_its_method_verb_route_and_room_exist(ability: Ability) -> None:
    tasks = [task for task in TASKS if ability in task.can]
    assert tasks
    assert all(callable(getattr(task.run_class, ability.method)) for task in tasks)
    assert not ability.verb or hasattr(VERBS, ability.verb)
    assert not ability.route or ability.route in {getattr(route, "path", "") for route in build(Models([])).routes}
    assert not ability.room or ability.room in ROOMS


@pytest.mark.parametrize("ability", ABILITIES, ids=lambda one: one.name)
def test_tasks_without_it_do_not_have_its_method(ability: Ability) -> None:
    """So that nothing is offered in one place and refused in another."""
    inherited = {"evaluate", "embed", "attention", "states", "walk", "predictions", "chat"}  # refused when they are called
    for task in TASKS:
        assert ability in task.can or ability.method in inherited or not hasattr(task.run_class, ability.method)


@pytest.mark.parametrize(
    ("recipe", "ability", "has"),
    [
        ("dates-rnnsearch", ATTENTION, True),
        ("dates-rnnenc", ATTENTION, False),
        ("docs-char-gru", STATES, True),
        ("docs-char-transformer", STATES, False),
        ("chat-decoder", CHAT, True),
        ("docs-char-transformer", CHAT, False),
    ],
)
def test_some_depend_on_the_model(recipe: str, ability: Ability, has: bool) -> None:
    assert (ability in find_recipe(recipe).task.abilities()) is has


def test_a_chat_template_makes_a_language_model_chat() -> None:
    assert CHAT in find_recipe("docs-char-transformer").task.abilities(chat_template=True)
    assert CHAT not in find_recipe("sst2-lstm").task.abilities(chat_template=True)


REFUSED: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "translate": (("a",), {"input": "a"}),
    "classify": (("a",), {"input": "a"}),
    "tag": (("a",), {"input": ["a"]}),
    "answer": (("a", "--context", "b"), {"question": "a", "context": "b"}),
    "chat": ((), {"messages": [{"role": "user", "content": "a"}]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_without_it_is_refused_in_the_same_words_everywhere(name: str, char_run: Path, firth: Firth) -> None:
    ability, (arguments, body) = ABILITIES[name], REFUSED[name]
    run: Any = load(char_run, "cpu")
    message = str(run.refusal(ability))
    assert message.endswith(f" and cannot {name}; it can: generate, score, complete, evaluate, embed.")
    with pytest.raises(ConfigError) as in_python:
        getattr(run, ability.method)("a")
    with pytest.raises(WrongTask) as when_loaded:
        load(char_run, kind=ability)
    client = TestClient(build(Models([ServedModel("char", run, Limits())])), base_url="http://127.0.0.1")
    assert str(in_python.value) == str(when_loaded.value) == message
    assert firth(ability.verb, char_run, *arguments).err == f"firth: {message}\n"
    assert client.post(ability.route, json=body).json()["error"]["message"] == message


def test_a_run_lists_what_it_can_do_in_python_over_http_and_in_its_description(char_run: Path, firth: Firth) -> None:
    run = load(char_run, "cpu")
    names = ["generate", "score", "complete", "predict", "walk", "evaluate", "embed", "show_states"]
    assert [one.name for one in run.abilities] == names
    client = TestClient(build(Models([ServedModel("char", run, Limits())])), base_url="http://127.0.0.1")
    assert client.get("/v1/models/char").json()["abilities"] == names
    assert json.loads(firth("describe", char_run, "--json").out)["abilities"] == names
    assert (
        f"can{'generate':>25}, score, complete, predict, walk, evaluate, embed, show states\n" in firth("describe", char_run).out
    )
