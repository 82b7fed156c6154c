"""The room Training in a browser: the curves are those of the logs, and grow with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from browsing import Screenshot, Visit, executed, serving

from firth.serving.lab.library import RunLibrary
from firth.training.log import read


@pytest.mark.long
def test_the_curves_of_several_runs_are_those_of_their_logs(
    visit: Visit, screenshot: Screenshot, char_run: Path, transformer_run: Path
) -> None:
    page = visit("#/training?runs=char%0Atransformer")
    drawn = {trace["name"]: trace for trace in page.plot("curves")["data"]}
    for name, run in (("char", char_run), ("transformer", transformer_run)):
        lines = read(run / "log.jsonl")
        assert drawn[f"{name}, training"]["x"] == [line["step"] for line in lines]
        assert drawn[f"{name}, training"]["y"] == [line["loss"] for line in lines]
        assert drawn[f"{name}, validation"]["y"] == [line["valid"]["loss"] for line in lines if "valid" in line]
        assert f"{name}: finished: {lines[-1]['step']} steps" in page.page.locator("[data-states]").inner_text()
    screenshot(page, "training")


@pytest.mark.long
def test_any_number_of_the_log_against_anything_and_the_address_restores_it(visit: Visit, char_run: Path) -> None:
    page = visit("#/training?runs=char").set("metric", "perplexity").set("against", "tokens").set("log", "true")
    lines = [line for line in read(char_run / "log.jsonl") if "valid" in line]
    (curve,) = page.plot("curves")["data"]
    assert (curve["x"], curve["y"]) == ([line["tokens"] for line in lines], [line["valid"]["perplexity"] for line in lines])
    assert page.plot("curves")["layout"]["yaxis"]["type"] == "log"
    again = visit(page.hash())
    assert again.plot("curves")["data"] == page.plot("curves")["data"]
    assert again.page.locator("[data-control=metric]").input_value() == "perplexity"
    assert page.table("curves") == [list(row) for row in executed(page.python())["figure"].table.rows]


@pytest.mark.long
def test_runs_are_chosen_by_their_boxes(visit: Visit) -> None:
    page = visit("#/training")
    assert {trace["name"].partition(",")[0] for trace in page.plot("curves")["data"]} == {"char", "transformer", "bpe"}
    page.page.get_by_label("bpe", exact=True).uncheck()
    assert {trace["name"].partition(",")[0] for trace in page.settled().plot("curves")["data"]} == {"char", "transformer"}


@pytest.mark.long
def test_it_opens_with_the_runs_that_learn_the_same_as_the_first(visit: Visit, pair_library: RunLibrary, char_run: Path) -> None:
    with serving(RunLibrary([*pair_library.places, char_run])) as address:
        page = visit("#/training", at=address)
        assert {trace["name"].partition(",")[0] for trace in page.plot("curves")["data"]} == set(pair_library.runs)
        told = page.page.locator("[data-chosen]")
        assert "the same task as rnnsearch (translation)" in told.text_content()
        page.page.get_by_label("char", exact=True).check()
        assert "char, training" in [trace["name"] for trace in page.settled().plot("curves")["data"]]
        assert not told.is_visible()


@pytest.fixture
def half(char_run: Path, tmp_path: Path) -> Path:
    """A run under way: its log ends after the third line."""
    run = tmp_path / "half"
    shutil.copytree(char_run, run)
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    return run


def test_a_log_that_grows_is_drawn_again_by_itself(visit: Visit, half: Path) -> None:
    with serving(RunLibrary([half])) as address:
        page = visit("#/training?runs=half", at=address)
        assert page.plot("curves")["data"][0]["x"] == [10, 20, 30]
        assert "running: step 30 of 60" in page.page.locator("[data-states]").inner_text()
        with (half / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps({"step": 40, "loss": 1.25, "tokens": 7680, "seconds": 9.5}) + "\n")
        page.until("document.querySelector('[data-figure=curves] .plot').data[0].x.length === 4")
        assert page.plot("curves")["data"][0]["y"][-1] == 1.25


@pytest.mark.long
def test_a_run_that_disappears_is_told_and_the_room_goes_on(visit: Visit, half: Path, char_run: Path) -> None:
    with serving(RunLibrary([half, char_run])) as address:
        page = visit("#/training?runs=half", at=address)
        shutil.rmtree(half)
        page.set("against", "tokens")
        assert f'the run "half" is no longer in {half}' in page.alert()
        page.page.get_by_label("half", exact=True).uncheck()
        page.page.get_by_label("char", exact=True).check()
        assert page.settled().plot("curves")["data"][0]["name"] == "char, training"
        assert page.page.locator("[role=alert]").count() == 0


@pytest.mark.long
def test_a_run_begun_while_the_lab_is_open_appears(visit: Visit, half: Path, tmp_path: Path) -> None:
    library = tmp_path / "runs"
    library.mkdir()
    with serving(RunLibrary([library])) as address:
        page = visit("#/training", at=address)
        assert "firth train" in page.page.locator("[data-command]").text_content()
        shutil.copytree(half, library / "begun")
        page.page.reload()
        assert "begun: running" in page.settled().page.locator("[data-states]").inner_text()


@pytest.mark.long
def test_no_model_is_loaded_for_it(visit: Visit, half: Path) -> None:
    (half / "model.safetensors").write_bytes(b"no weights")
    with serving(RunLibrary([half])) as address:
        assert visit("#/training?runs=half", at=address).plot("curves")["data"]
