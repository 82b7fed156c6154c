"""The room Compare in a browser: fresh architectures at once, runs when asked to."""

from __future__ import annotations

import numpy as np
import pytest
from browsing import Screenshot, Visit

from firth.api import load
from firth.inspection.cost import layers
from firth.inspection.gradient_flow import compare_flow, model_kinds
from firth.serving.lab.library import RunLibrary


@pytest.mark.long
def test_gradients_of_fresh_models_against_distance(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/compare?length=20&size=5000&gain=1.5")
    expected = compare_flow(length=20, size=5000, gain=1.5)
    drawn = {trace["name"]: trace["y"] for trace in page.plot("flow")["data"]}
    assert tuple(drawn) == model_kinds()
    for name, flow in expected.items():
        np.testing.assert_allclose(drawn[name], flow.state / flow.state[0], rtol=1e-6)
    screenshot(page, "compare")


@pytest.mark.long
def test_time_against_n_and_d(visit: Visit) -> None:
    page = visit("#/compare?look=cost&longest=128&widest=64")
    assert {row[0] for row in page.table("cost")} == set(layers())


@pytest.mark.long
def test_translators_are_measured_when_asked_and_by_their_address(visit: Visit, pair_lab: str, pair_library: RunLibrary) -> None:
    page = visit("#/compare?look=lengths&translators=rnnsearch", at=pair_lab)
    assert not page.page.locator("[data-figure]").count()
    page.press("start")
    (bucket, *_) = load(pair_library.path("rnnsearch")).evaluate(beam=1)["buckets"]
    assert page.table("exact")[0][2:] == [f"{bucket['sentences']}", f"{100 * bucket['exact']:.2f}"]
    assert visit(page.hash(), at=pair_lab).table("exact") == page.table("exact")
    page.set("beam", "2")
    assert not page.page.locator("[data-figure]").count()


@pytest.mark.long
def test_without_such_runs_the_room_says_how_to_make_one(visit: Visit) -> None:
    page = visit("#/compare?look=examples")
    assert "firth train icl-swap" in page.page.locator("[data-about]").text_content()
    assert not page.page.locator("button[data-control=start]").is_visible()
