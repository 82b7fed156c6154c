"""The views of Generate, Attention and Translate as functions: every kind of run, one reading for all pictures of a text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from browsing import executed
from questions import RECORDS, answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews

from firth.api import Model, compose, load, train_recipe
from firth.errors import ConfigError, FirthError
from firth.serving.lab.room import Asked, Cancelled, Shown
from firth.serving.lab.rooms import attention, generate, translate
from firth.serving.lab.shelf import Shelf

View = Callable[..., Shown]


def _quiet(done: float, of: float, message: str) -> None:
    pass


def ask(view: View, shelf: Shelf, **given: object) -> Shown:
    return view(Asked(given), shelf, _quiet)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """classifier and answers: 2 steps each, enough to be looked into."""
    folder = tmp_path_factory.mktemp("encoders")
    tables = {
        "classifier": classifier_table(write_reviews(folder / "reviews.csv"), steps=2),
        "answers": answer_table(write_questions(folder / "questions.jsonl", RECORDS[:40]), steps=2),
    }
    tables["classifier"]["model"] = {"family": "encoder", "kind": "transformer", "width": 16, "depth": 2, "heads": 2}
    return Shelf([train_recipe(compose(table), folder / name).path for name, table in tables.items()])


def test_encoders_are_looked_into_too(encoders: Shelf) -> None:
    shown = ask(attention.head, encoders, run="classifier", text="a great film", layer="1", head="0")
    seen = load(encoders.path("classifier")).attention("a great film")
    np.testing.assert_allclose(shown.figures["map"].plot.data[0].z, seen.weights(1, 0)[0], atol=1e-5)
    question = {"text": "Where does Anna live ?", "context": "Anna lives in Rome ."}
    shown = ask(attention.head, encoders, run="answers", **question, layer="0", head="mean")
    seen = load(encoders.path("answers")).attention(question["text"], context=question["context"])
    np.testing.assert_allclose(shown.figures["map"].plot.data[0].z, seen.weights(0).mean(0), atol=1e-5)
    np.testing.assert_allclose(executed(shown.python)["figures"]["map"].plot.data[0].z, seen.weights(0).mean(0), atol=1e-5)


def test_one_reading_serves_every_picture_of_a_text(transformer_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, read = Shelf([transformer_run]), []
    reading = Model.attention
    monkeypatch.setattr(Model, "attention", lambda self, text, **given: read.append(text) or reading(self, text, **given))
    for view in (attention.overview, attention.head, attention.layers):
        ask(view, shelf, run="transformer", text="the list", layer="0", head="0")
    ask(attention.head, shelf, run="transformer", text="the list", layer="0", head="1", words="true")
    assert read == ["the list"]
    ask(attention.overview, shelf, run="transformer", text="a name")
    assert read == ["the list", "a name"]


def test_the_overview_says_how_many_cells_it_has(transformer_run: Path) -> None:
    shown = ask(attention.overview, Shelf([transformer_run]), run="transformer", text="the list")
    assert shown.facts["cells"] == [8, 17]  # one layer of 8 rows; two heads of 8 columns and one between them
    assert (shown.facts["layers"], shown.facts["heads"]) == ([0], 2)


def test_lines_are_drawn_where_there_are_few_tokens(transformer_run: Path) -> None:
    shelf, text = Shelf([transformer_run]), "the list is empty.\n" * 10
    assert list(ask(attention.head, shelf, run="transformer", text=text[:128]).figures) == ["map", "lines"]
    assert list(ask(attention.head, shelf, run="transformer", text=text[:129]).figures) == ["map"]


@pytest.mark.filterwarnings("ignore:read as <unk>")
def test_cross_attention_has_no_rollout(pair_shelf: Shelf) -> None:
    same = ask(
        attention.layers, pair_shelf, run="transformer", text="x y", target="x y", part="cross"
    )  # <unk> <unk> on both sides
    assert list(same.figures) == ["entropy"]
    for part, names in (("cross", ["entropy"]), ("encoder", ["entropy", "rollout"]), ("decoder", ["entropy", "rollout"])):
        shown = ask(attention.layers, pair_shelf, run="transformer", text="1 2 3", target="one two three", part=part)
        assert list(shown.figures) == names


def test_layers_and_heads_that_are_not_there_are_refused(transformer_run: Path) -> None:
    shelf = Shelf([transformer_run])
    with pytest.raises(ConfigError, match="layer 7 was not looked at"):
        ask(attention.head, shelf, run="transformer", text="the", layer="7", head="0")
    with pytest.raises(ConfigError, match="head 9 is asked for"):
        ask(attention.head, shelf, run="transformer", text="the", layer="0", head="9")
    with pytest.raises(ConfigError, match='head is "x"; expected a whole number'):
        ask(attention.head, shelf, run="transformer", text="the", head="x")


def test_runs_with_attention_stand_first_and_each_room_knows_its_own(
    char_run: Path, transformer_run: Path, pair_shelf: Shelf, encoders: Shelf, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "format").write_text("99\n", encoding="utf-8")
    shelf = Shelf([char_run, broken, transformer_run, pair_shelf.path("rnnenc"), pair_shelf.path("rnnsearch"), *encoders.places])
    looking, writing, translating = (room.ROOM.usable(shelf).names for room in (attention, generate, translate))
    assert set(looking) == set(shelf.runs)
    assert set(looking[:4]) == {"transformer", "rnnsearch", "classifier", "answers"}
    assert writing == ("char", "transformer")
    assert translating == ("rnnenc", "rnnsearch")


def test_writing_stops_where_nobody_waits_any_more(char_run: Path) -> None:
    told: list[float] = []

    def progress(done: float, of: float, message: str) -> None:
        told.append(done)
        if done == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        generate.writing(Asked({"run": "char", "prompt": "the", "more": "400"}), Shelf([char_run]), progress)
    assert told[-3:] == [1, 2, 3]


def test_states_of_a_recurrent_run_over_what_was_written(char_run: Path) -> None:
    shelf, model = Shelf([char_run]), load(char_run)
    written = model.ids(" list").tolist()
    shown = ask(generate.state, shelf, run="char", prompt="the", tokens=",".join(map(str, written)), gate="update", units="5")
    states = model.states("the list")
    assert (shown.facts["levels"], shown.facts["gates"]) == (["layer 0"], ["h", "reset", "update", "candidate"])
    most = states.levels[0].most(5)
    np.testing.assert_allclose(shown.figures["state"].plot.data[0].z, states.levels[0].gates()["update"][:, most].T, atol=1e-4)
    figure = executed(shown.python)["figure"]
    np.testing.assert_allclose(figure.plot.data[0].z, shown.figures["state"].plot.data[0].z)


def test_a_transformer_has_no_states(transformer_run: Path) -> None:
    with pytest.raises(FirthError, match="has no recurrent state"):
        ask(generate.state, Shelf([transformer_run]), run="transformer", prompt="the")


def test_the_copied_python_writes_the_same(char_run: Path) -> None:
    shown = ask(generate.writing, Shelf([char_run]), run="char", prompt="the", more="6", seed="4", temperature="0.8")
    assert executed(shown.python)["ids"] == shown.facts["ids"]
    assert len(shown.facts["ids"]) == 6  # type: ignore[arg-type]
