"""The runs that the lab trains at the press of a button: a fixed list, small, and the same as their commands train."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from browsing import executed

import firth
from firth.api import find_recipe
from firth.cli.settings import settings
from firth.errors import ConfigError
from firth.experiments.describe import describe_recipe
from firth.progress import silent
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import build, rooms
from firth.serving.lab.run_facts import run_facts
from firth.serving.lab.starters import STARTERS, RunStarter, VectorsStarter
from firth.serving.lab.workshop import Workshop

GENERATED = {"docs", "dates", "python-source", "chats", "stories", "scenes"}  # data sets that firth makes on the spot
RUNS = {name: one for name, one in STARTERS.items() if isinstance(one, RunStarter)}
VECTORS = {name: one for name, one in STARTERS.items() if isinstance(one, VectorsStarter)}


@pytest.mark.parametrize("starter", RUNS.values(), ids=RUNS)
def test_the_command_trains_what_the_button_trains(starter: RunStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    *_, line = starter.command().splitlines()
    verb, train, recipe, out, folder, *options = shlex.split(line)
    assert (verb, train, out, folder) == ("firth", "train", "--out", f"runs/{starter.name}")
    typed, pressed = find_recipe(recipe, settings(options)), starter.training(tmp_path).recipe
    assert typed.resolved() == pressed.resolved()
    if starter.table:
        printf, text, *_ = shlex.split(starter.command().splitlines()[0])
        assert (printf, text.replace("\\n", "\n")) == ("printf", starter.table)
        assert (tmp_path / f"{starter.name}.csv").read_text(encoding="utf-8") == starter.table
    else:
        assert pressed.data.name in GENERATED
    assert not {"reviews", "dutch", "tags"} & set(getattr(pressed.data, "skills", None) or ())  # chats that need a download
    assert pressed.training.steps <= build.MOST_STEPS


@pytest.mark.parametrize("starter", VECTORS.values(), ids=VECTORS)
def test_the_command_trains_the_vectors_that_the_button_trains(
    starter: VectorsStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab only adds a log, from which it reads how far the training is."""
    verb, *typed = shlex.split(starter.command())
    made = starter.training(tmp_path)
    assert typed[:5] == ["vectors", "train", "docs", "--out", f"runs/{starter.name}.firth"]
    path = Path("runs") / f"{starter.name}.firth"
    assert (verb, made.arguments(path)) == ("firth", [*typed, "--log", f"runs/{starter.name}.jsonl"])
    calls: list[object] = []
    monkeypatch.setattr(firth.vectors, "train", lambda *given, **named: calls.append((given, named)))
    executed(made.python(path))
    assert calls == [(("docs",), {"out": str(path), **starter.settings})]
    assert {f"--{name.replace('_', '-')}" for name in starter.settings} == {one.partition("=")[0] for one in typed[5:]}


@pytest.mark.long
@pytest.mark.parametrize("starter", RUNS.values(), ids=RUNS)
def test_a_starter_is_as_small_as_what_build_trains(starter: RunStarter, tmp_path: Path) -> None:
    assert describe_recipe(starter.name, starter.training(tmp_path).recipe).parameters <= build.MOST_PARAMETERS


def test_only_what_is_on_the_list_is_trained(tmp_path: Path) -> None:
    library = RunLibrary()
    library.workshop = Workshop(tmp_path / "runs")
    for name in ("hello", "../dates", str(tmp_path / "own.toml"), "", None):
        with pytest.raises(ConfigError, match="starter is"):
            build.make(ViewRequest({"starter": name, "recipe": "hello"}), library, silent)
    assert library.workshop.job is None
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    assert shop.free("dates") == "dates"
    (tmp_path / "dates").mkdir()
    (tmp_path / "dates-2").mkdir()
    assert shop.free("dates") == "dates-3"
    assert shop.free("dates", ".firth") == "dates"
    (tmp_path / "dates.firth").touch()
    assert shop.free("dates", ".firth") == "dates-2"


def test_what_a_button_trained_is_linked_to_the_rooms_that_lacked_it(tmp_path: Path) -> None:
    offered = {name: room.starter for name, room in rooms().items() if name != "training"}
    for name, starter in offered.items():
        if isinstance(starter, RunStarter):
            assert name in build._rooms(run_facts(starter.training(tmp_path).recipe)), name


def test_every_room_that_lacks_something_has_a_command_for_it() -> None:
    for name, room in rooms().items():
        told = room.json(RunLibrary())
        assert bool(told["if_none"]) == (not told["works"]), name
        assert str(told["command"]).startswith(("firth ", "printf ")) == (not told["works"]), name
    assert {name for name, room in rooms().items() if room.starter} == {
        *("walk", "generate", "inspect", "attention", "translate", "classify", "training", "words", "tag", "chat"),
        *("answer", "caption"),
    }
