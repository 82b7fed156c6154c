"""A task from a file of one's own, whose runs have an ability that firth does not ship."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shell
from shell import Firth, firth
from starlette.testclient import TestClient
from test_own_ideas import FILES, table

from firth import ideas
from firth.api import compose, load, train_recipe
from firth.cli.app import app
from firth.errors import ConfigError
from firth.serving.http.app import build
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models, ServedModel
from firth.serving.lab.app import build as build_lab
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms.build import _rooms
from firth.tasks import TASKS
from firth.tasks.ability import ABILITIES

__all__ = ["firth"]

SETTINGS = {"objective": {"kind": "surprisal"}, "model": {"kind": "gru", "width": 16}}
TEXTS = ["the list is set", "a name"]


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Verbs that are added are removed afterwards; those of firth, which importing their module adds, stay."""
    importlib.import_module("firth.cli.verbs")
    monkeypatch.setattr(app, "registered_commands", [*app.registered_commands])
    shell._command.cache_clear()
    yield
    shell._command.cache_clear()


@pytest.mark.usefixtures("verbs")
def test_its_ability_is_a_method_a_verb_an_address_and_a_room_and_is_listed_everywhere(
    tmp_path: Path, char_run: Path, use: Any, firth: Firth
) -> None:
    use(FILES / "task.py")
    surprise = ABILITIES["surprise"]
    train_recipe(compose(table(SETTINGS)), out := tmp_path / "odd")
    run: Any = load(out, "cpu")
    oddest = run.oddest(TEXTS)
    assert [token in text for token, text in zip(oddest, TEXTS, strict=True)] == [True, True]

    assert json.loads(firth("describe", out, "--json").out)["abilities"][:2] == ["surprise", "generate"]
    assert RunLibrary([out]).facts("odd").can(surprise)
    assert firth("odd", out, *TEXTS).out.splitlines() == oddest
    served = [ServedModel(name, load(path, "cpu"), Limits()) for name, path in (("odd", out), ("char", char_run))]
    with TestClient(build(Models(served)), base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/odd", json={"model": "odd", "input": TEXTS}).json()
        assert [one["output"] for one in answer["data"]] == oddest
        assert client.get("/v1/models/odd").json()["abilities"][0] == "surprise"
        refused = client.post("/v1/odd", json={"model": "char", "input": TEXTS}).json()["error"]["message"]
    assert refused == str(load(char_run).refusal(surprise))
    with TestClient(build_lab(library := RunLibrary([out])), base_url="http://127.0.0.1:8421") as client:
        room = client.get("/api/lab").json()["rooms"][-1]
        told = client.post("/api/surprise/results", json={"run": "odd", "text": "\n\n".join(TEXTS)}).text.splitlines()[-1]
    assert (room["about"], room["usable"], room["module"]) == ("Find the most surprising token.", ["odd"], "lib/any_room.js")
    assert json.loads(told)["result"]["table"]["rows"] == [list(row) for row in zip(TEXTS, oddest, strict=True)]
    assert "surprise" in _rooms(library.facts("odd"))
    assert firth("odd", char_run, "a").err == f"firth: {refused}\n"
    assert refused.startswith("this run is a language model and cannot surprise; it can: generate")


def test_a_run_asks_for_the_file_of_its_task(tmp_path: Path, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r'objective\.kind is "surprisal"; choose "next-token", '):
        compose(table(SETTINGS))
    use(FILES / "task.py")
    train_recipe(compose(table(SETTINGS, steps=1)), out := tmp_path / "odd")
    (origin,) = ideas._used.values()
    for collection in (TASKS, ABILITIES):
        collection.leave(origin)
    ideas._used.clear()
    monkeypatch.delenv(ideas.VARIABLE)
    with pytest.raises(ConfigError, match=r"this needs the ideas of task\.py"):
        load(out)
