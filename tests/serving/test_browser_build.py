"""The room Build in a browser: the count is that of the recipe, and a run trained there opens in the walk."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed, workshop_in

from firth.api import compose, load
from firth.errors import ConfigError
from firth.experiments.describe import describe_recipe
from firth.progress import silent
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import build
from firth.serving.lab.trainings import RunTraining
from firth.serving.lab.workshop import Workshop
from firth.training import log

SMALL = "kind=gru&width=12&depth=1&steps=20&batch=2&context=8"


@pytest.fixture
def building(lab: str, library: RunLibrary, tmp_path: Path) -> Iterator[tuple[str, RunLibrary]]:
    """A lab whose workshop writes to a folder of the test."""
    with workshop_in(tmp_path / "runs", RunLibrary(library.places)) as lent:
        yield lent


def _told(page: Watched) -> str:
    found: str = page.page.locator("[data-told]").text_content()
    return found


def _recipe(page: Watched) -> dict[str, object]:
    return tomllib.loads(page.page.locator("[data-recipe]").text_content())


@pytest.mark.long
def test_the_count_follows_the_settings_at_once(visit: Visit, library: RunLibrary, screenshot: Screenshot) -> None:
    page = visit("#/build?kind=transformer&width=32&depth=1&heads=2")
    cut = page.page.locator("[data-recipe] .cut")
    assert len(cut.text_content()) > 10_000
    assert cut.bounding_box()["width"] < 800  # cut off to look at
    program = page.python("parameters")
    assert len(program) < 1000
    assert executed(program)["described"].parameters == describe_recipe("it", compose(_recipe(page))).parameters
    sizes = []
    for name, value in (("depth", "2"), ("position", "learned"), ("score", "additive"), ("kind", "lstm")):
        page.set(name, value)
        recipe = compose(_recipe(page))
        assert recipe.model.kind == ("lstm" if name == "kind" else "transformer")
        exact = describe_recipe("it", recipe).parameters
        assert page.table("totals")[0][2] == f"{exact:,}"
        sizes.append(exact)
    assert len(set(sizes)) == 4
    assert not page.page.locator("[data-control=heads]").is_visible()
    page.set("width", "512")
    page.set("depth", "12")
    button, why = page.page.locator("[data-control=train]"), page.page.locator("[data-training] [data-why]")
    assert button.is_disabled()
    assert "and the lab trains at most 2,000,000. Make it smaller" in why.text_content()
    assert button.get_attribute("aria-describedby") == why.get_attribute("id")
    page.set("width", "8")
    assert button.is_enabled()
    assert why.text_content() == ""
    screenshot(page, "build")


@pytest.mark.long
def test_a_model_is_trained_with_live_curves_and_opens_in_the_walk(
    visit: Visit, building: tuple[str, RunLibrary], screenshot: Screenshot
) -> None:
    address, own = building
    page = visit(f"#/build?{SMALL}", at=address)
    with page.page.expect_download() as download:
        page.page.locator("[data-download]").click()
    assert tomllib.loads(download.value.path().read_text(encoding="utf-8")) == _recipe(page)
    page.page.locator("[data-control=name]").fill("tiny")
    page.page.locator("[data-control=name]").press("Enter")
    page.until("document.querySelector('[data-told]').textContent.includes('is trained')")
    job = own.workshop.job
    assert job is not None
    lines = [line for line in log.read(job.path / "log.jsonl") if "loss" in line]
    curve = next(trace for trace in page.plot("curves")["data"] if len(trace["x"]) == len(lines))
    np.testing.assert_allclose(curve["y"], [line["loss"] for line in lines], rtol=1e-6)
    screenshot(page, "build-trained")
    page.page.locator("[data-links] a", has_text="Walk").click()
    page.page.wait_for_selector("[data-room=walk] [data-stage]")
    page.settled()
    assert page.page.locator("[data-control=run]").input_value() == "tiny"
    text = page.page.locator("[data-control=text]").input_value()
    assert build.sentences().startswith(text)  # its own words, which its vocabulary has
    assert len(load(job.path).walk(text).stages) == page.page.locator("[data-stage]").count()


@pytest.mark.long
def test_only_one_training_at_a_time_and_stop_keeps_the_weights(visit: Visit, building: tuple[str, RunLibrary]) -> None:
    address, own = building
    page = visit("#/build?kind=gru&width=16&depth=1&steps=2000", at=address)
    page.page.locator("[data-control=name]").fill("long")
    page.page.locator("[data-control=train]").click()
    page.until("document.querySelector('[data-told]').textContent.includes('step ')")
    why = page.page.locator("[data-training] [data-why]").text_content()
    assert why == "“long” is being trained: wait until it ends, or press Stop."
    request = {"kind": "gru", "width": "8", "depth": "1", "name": "other"}
    with pytest.raises(ConfigError, match='"long" is still training'):
        build.train(ViewRequest(request), own, silent)
    other = visit("#/generate?run=char&prompt=the", at=address)  # another room works on meanwhile
    assert other.page.locator("[data-candidate]").count()
    page.page.locator("[data-control=stop]").click()
    page.until("document.querySelector('[data-told]').textContent.includes('is trained')")
    assert own.workshop.job is not None
    assert load(own.workshop.job.path).generate("the", tokens=2)
    page.page.locator("[data-control=train]").click()
    page.page.locator("[data-training] [role=alert]", has_text="exists already; choose another name").wait_for()


@pytest.mark.long
def test_bad_settings_are_told(visit: Visit) -> None:
    page = visit("#/")
    for settings, message in (
        ("kind=transformer&width=30&heads=4", "heads"),
        ("source=pasted&text=short", "the text has 5 characters; paste at least 200"),
        ("width=9999", "width is 9999"),
        ("kind=cnn", 'kind is "cnn"'),
    ):
        page.open(f"#/build?{settings}")
        page.page.locator("[role=alert]", has_text=message).wait_for()
        assert page.settled().page.locator("[data-control=train]").is_disabled()
        assert (
            page.page.locator("[data-training] [data-why]").text_content()
            == "These settings make no model: see the message above."
        )


def test_a_name_is_no_path_and_time_is_bounded(tmp_path: Path) -> None:
    shop, training = Workshop(tmp_path), RunTraining(compose(build._table(ViewRequest({"kind": "gru"}), RunLibrary())))
    for name in ("../x", "a/b", "", "x" * 41, "a b"):
        with pytest.raises(ConfigError, match="is not a valid name for a run"):
            shop.start(training, name)
    assert not list(tmp_path.iterdir())
    assert shop.most_seconds <= 600


@pytest.mark.long
def test_a_training_that_fails_or_takes_too_long(tmp_path: Path) -> None:
    table = build._table(ViewRequest({"kind": "gru", "width": "8", "depth": "1", "steps": "2000"}), RunLibrary())
    failing = Workshop(tmp_path / "failing").start(RunTraining(compose({**table, "data": {"path": "nowhere.txt"}})), "mine")
    assert failing.process.wait(60)
    assert "nowhere.txt does not exist" in failing.error()

    stopped = Workshop(tmp_path / "stopped", most_seconds=500.0).start(RunTraining(compose(table)), "mine")
    assert stopped.limit.interval == 500.0
    lines = stopped.path / "log.jsonl"
    while not (lines.exists() and log.read(lines)):
        assert stopped.running
        time.sleep(0.05)
    stopped.limit.function()  # as if the time were over
    stopped.process.wait(60)
    assert stopped.error() == ""
    assert log.read(lines)[-1]["step"] < 2000
    for job in (failing, stopped):
        job.limit.cancel()
        job.said.close()
