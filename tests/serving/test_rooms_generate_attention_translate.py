"""The views of Generate, Attention and Translate as functions: every kind of run, one reading for all pictures of a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from browsing import executed
from questions import RECORDS, answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, FirthError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Cancelled
from firth.serving.lab.rooms import attention, generate, translate
from firth.tasks.abilities.stepwise_generation import next_token
from firth.tasks.run import Run

View = Callable[..., ViewResult]


def _quiet(what: str, done: int, total: int) -> None:
    pass


def ask(view: View, library: RunLibrary, **given: object) -> ViewResult:
    return view(ViewRequest(given), library, _quiet)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> RunLibrary:
    """classifier and answers: 2 steps each, enough to be looked into."""
    folder = tmp_path_factory.mktemp("encoders")
    tables = {
        "classifier": classifier_table(write_reviews(folder / "reviews.csv"), steps=2),
        "answers": answer_table(write_questions(folder / "questions.jsonl", RECORDS[:40]), steps=2),
    }
    tables["classifier"]["model"] = {"family": "encoder", "kind": "transformer", "width": 16, "depth": 2, "heads": 2}
    return RunLibrary([train_recipe(compose(table), folder / name).path for name, table in tables.items()])


def test_encoders_are_looked_into_too(encoders: RunLibrary) -> None:
    result = ask(attention.head, encoders, run="classifier", text="a great film", layer="1", head="0")
    seen = load(encoders.path("classifier")).attention("a great film")
    np.testing.assert_allclose(result.figures["map"].plot.data[0].z, seen.weights(1, 0)[0], atol=1e-5)
    question = {"text": "Where does Anna live ?", "context": "Anna lives in Rome ."}
    result = ask(attention.head, encoders, run="answers", **question, layer="0", head="mean")
    seen = load(encoders.path("answers")).attention(question["text"], context=question["context"])
    np.testing.assert_allclose(result.figures["map"].plot.data[0].z, seen.weights(0).mean(0), atol=1e-5)
    np.testing.assert_allclose(executed(result.python)["figures"]["map"].plot.data[0].z, seen.weights(0).mean(0), atol=1e-5)
    assert result.program("lines") == result.python + "figures['lines'].plot\n"  # each figure has a program that shows it
    assert json.loads(result.json())["programs"] == {name: result.program(name) for name in ("map", "lines")}


def test_one_reading_serves_every_picture_of_a_text(transformer_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, read = RunLibrary([transformer_run]), []
    reading = Run.attention
    monkeypatch.setattr(Run, "attention", lambda self, text, **given: read.append(text) or reading(self, text, **given))
    for view in (attention.overview, attention.head, attention.layers):
        ask(view, library, run="transformer", text="the list", layer="0", head="0")
    ask(attention.head, library, run="transformer", text="the list", layer="0", head="1", words="true")
    assert read == ["the list"]
    ask(attention.overview, library, run="transformer", text="a name")
    assert read == ["the list", "a name"]


def test_the_overview_says_how_many_cells_it_has(transformer_run: Path) -> None:
    result = ask(attention.overview, RunLibrary([transformer_run]), run="transformer", text="the list")
    assert result.facts["cells"] == [8, 17]  # one layer of 8 rows; two heads of 8 columns and one between them
    assert (result.facts["layers"], result.facts["heads"]) == ([0], 2)


def test_lines_are_drawn_where_there_are_few_tokens(transformer_run: Path) -> None:
    library, text = RunLibrary([transformer_run]), "the list is empty.\n" * 10
    assert list(ask(attention.head, library, run="transformer", text=text[:128]).figures) == ["map", "lines"]
    assert list(ask(attention.head, library, run="transformer", text=text[:129]).figures) == ["map"]


@pytest.mark.filterwarnings("ignore:read as <unk>")
def test_cross_attention_has_no_rollout(pair_library: RunLibrary) -> None:
    same = ask(
        attention.layers, pair_library, run="transformer", text="x y", target="x y", part="cross"
    )  # <unk> <unk> on both sides
    assert list(same.figures) == ["entropy"]
    for part, names in (("cross", ["entropy"]), ("encoder", ["entropy", "rollout"]), ("decoder", ["entropy", "rollout"])):
        result = ask(attention.layers, pair_library, run="transformer", text="1 2 3", target="one two three", part=part)
        assert list(result.figures) == names


def test_layers_and_heads_that_are_not_there_are_refused(transformer_run: Path) -> None:
    library = RunLibrary([transformer_run])
    with pytest.raises(ConfigError, match=r"layer is 7; expected one of 0"):
        ask(attention.head, library, run="transformer", text="the", layer="7", head="0")
    with pytest.raises(ConfigError, match="there is no head 9"):
        ask(attention.head, library, run="transformer", text="the", layer="0", head="9")
    with pytest.raises(ConfigError, match='head is "x"; expected a whole number'):
        ask(attention.head, library, run="transformer", text="the", head="x")


def test_each_room_offers_the_runs_that_suit_it(
    char_run: Path, transformer_run: Path, pair_library: RunLibrary, encoders: RunLibrary, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "format").write_text("99\n", encoding="utf-8")
    library = RunLibrary(
        [char_run, broken, transformer_run, pair_library.path("rnnenc"), pair_library.path("rnnsearch"), *encoders.places]
    )
    looking, writing, translating = (room.ROOM.usable(library) for room in (attention, generate, translate))
    assert set(looking) == {"transformer", "rnnsearch", "classifier", "answers"}
    assert looking[-1] == "rnnsearch"  # it has one head
    assert writing == ("char", "transformer")
    assert translating == ("rnnsearch", "rnnenc")  # first the one with attention


def test_writing_stops_where_nobody_waits_any_more(char_run: Path) -> None:
    told: list[float] = []

    def progress(what: str, done: int, total: int) -> None:
        told.append(done)
        if done == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        generate.continuation(ViewRequest({"run": "char", "prompt": "the", "more": "400"}), RunLibrary([char_run]), progress)
    assert told[-3:] == [1, 2, 3]


def test_states_of_a_recurrent_run_over_what_was_written(char_run: Path) -> None:
    library, model = RunLibrary([char_run]), load(char_run)
    written = model.ids(" list").tolist()
    result = ask(generate.state, library, run="char", prompt="the", tokens=",".join(map(str, written)), gate="update", units="5")
    states = model.states("the list")
    offered: dict[str, list[dict[str, str]]] = result.facts["choices"]  # type: ignore[assignment]
    assert offered["level"] == [{"value": "0", "label": states.levels[0].name}]
    assert [one["value"] for one in offered["gate"]] == ["h", "reset", "update", "candidate"]
    most = states.levels[0].most(5)
    np.testing.assert_allclose(result.figures["state"].plot.data[0].z, states.levels[0].gates()["update"][:, most].T, atol=1e-4)
    figure = executed(result.python)["figure"]
    np.testing.assert_allclose(figure.plot.data[0].z, result.figures["state"].plot.data[0].z)


def test_a_transformer_has_no_states(transformer_run: Path) -> None:
    with pytest.raises(FirthError, match="has no recurrent state"):
        ask(generate.state, RunLibrary([transformer_run]), run="transformer", prompt="the")


def test_the_copied_python_writes_the_same(char_run: Path) -> None:
    result = ask(generate.continuation, RunLibrary([char_run]), run="char", prompt="the", more="6", seed="4", temperature="0.8")
    assert executed(result.python)["ids"] == result.facts["ids"]
    assert len(result.facts["ids"]) == 6  # type: ignore[arg-type]


def test_generate_offers_every_filter_that_works_step_by_step_and_own_ones(char_run: Path, use: Callable[[Path], None]) -> None:
    use(file := Path(__file__).parents[1] / "ideas" / "sampling.py")
    library = RunLibrary([char_run])
    offered = {one.value: one.facts["settings"] for one in generate.ROOM.choices(library)["filter"]}
    assert {"min_p", "dry", "repetition_penalty", "top_a"} <= offered.keys()
    assert not {"temperature", "mirostat", "regex"} & offered.keys()
    result = ask(generate.next_token_view, library, run="char", prompt="the ", top_a="0.5", min_p="")
    assert "min_p" not in result.python
    assert result.python.startswith(f"import firth\n\nfirth.use({str(file)!r})\n\nfrom firth.tasks")
    assert result.python.count("import firth\n") == 1
    shares = result.figures["next"].plot.data[1].x
    model = load(char_run)
    step = next_token(model, "the ", [], model.decoding({"top_a": 0.5}))
    np.testing.assert_allclose(shares, [one.share for one in step.candidates])
    assert 0 in shares
