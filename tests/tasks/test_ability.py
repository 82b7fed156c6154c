"""What runs can do: each ability has its verb, route, room and method, and each run says which abilities it has."""

from __future__ import annotations

import importlib

import pytest

from firth.api import find_recipe
from firth.serving.http.app import build
from firth.serving.http.models import Models
from firth.serving.lab.rooms import ROOMS
from firth.tasks import TASKS
from firth.tasks.ability import ABILITIES, ATTENTION, CHAT, STATES, Ability

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
