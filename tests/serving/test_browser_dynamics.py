"""The room Dynamics in a browser: the points are those of `evolve`, the curves those of a model's layers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from browsing import Screenshot, Visit, executed

from firth.api import load
from firth.errors import ConfigError
from firth.inspection.contextual_vectors import depth
from firth.inspection.dynamics import PRESETS, PresetName, curves, evolve, preset
from firth.inspection.dynamics_matrices import Matrix
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms.dynamics import trajectory


@pytest.mark.long
def test_the_presets_stand_side_by_side(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/dynamics?preset=lecture&depth=45&layer=45&seed=3&beside=true")
    for name in get_args(PresetName):
        evolved = evolve(preset(name, seed=3), 45)
        dots, *_ = page.plot(name)["data"]
        if evolved.v_Lnd.shape[2] == 2:
            drawn = np.stack((dots["x"], dots["y"]), 1)
            np.testing.assert_allclose(drawn, evolved.v_Lnd[45] / evolved.curves.growth**45, rtol=1e-12)
        told = f"{PRESETS[name].about} {evolved.curves.summary()}"
        assert page.page.locator(f"[data-caption={name}]").text_content() == told
        lines = [trace["y"] for trace in page.plot("curves")["data"] if trace["name"] == name]
        found = evolved.curves
        expected = (found.effective_rank, found.mean_distance, found.clusters, found.attention_rank)
        assert lines == [list(values) for values in expected]
    screenshot(page, "dynamics")


@pytest.mark.long
def test_every_setting_reaches_the_points_and_the_address_restores_them(visit: Visit) -> None:
    page = (
        visit("#/dynamics?preset=lecture&beside=false&n=12&d=3&p=-0.2&depth=30")
        .set("q", "2.5")
        .set("seed", "5")
        .set("layer", "20")
    )
    assert page.page.locator("[data-control=P_rank]").is_hidden()
    page.set("P", "low-rank").set("P_rank", "2").set("Q", "spectrum").set("Q_eigenvalues", "2, 0.5")
    P, Q = Matrix("low-rank", rank=2), Matrix("spectrum", spectrum=(2, 0.5))
    evolved = evolve(preset("lecture", n=12, d=3, p=-0.2, q=2.5, P=P, Q=Q, seed=5), 30)
    assert page.plot("curves")["data"][0]["y"] == list(evolved.curves.effective_rank)
    again = visit(page.hash())
    assert again.plot("lecture")["data"] == page.plot("lecture")["data"]
    assert again.plot("curves")["data"] == page.plot("curves")["data"]
    assert again.page.locator("[data-figure=clusters]").count() == 0
    copied = executed(page.python("curves"))["figures"]
    assert page.table("curves") == [list(row) for row in copied["curves"].table.rows]
    assert page.table("lecture") == [list(row) for row in copied["lecture"].table.rows]


@pytest.mark.long
def test_a_preset_comes_with_its_own_settings(visit: Visit) -> None:
    page = visit("#/dynamics?preset=lecture&depth=5&beside=false").set("preset", "low-rank")
    assert page.page.locator("[data-control=P_rank]").input_value() == "2"
    assert page.page.locator("[data-control=d]").input_value() == "64"
    page.set("preset", "clusters")
    assert len(page.plot("clusters")["data"][0]["x"]) == 40
    assert page.page.locator("[data-control=p]").input_value() == "0.1"
    assert page.page.locator("[data-control=P_rank]").is_hidden()


@pytest.mark.long
def test_the_formula_that_is_shown_is_the_one_that_is_computed(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/dynamics?depth=30&layer=30&n=8")
    formula = page.page.locator("[data-formula=clusters]")
    assert formula.text_content() == "Geshkovski et al. 2023: v ← v + P Σ α v"
    page.set("rescale", "0.905")
    assert formula.text_content() == "Geshkovski et al. 2023: v ← 0.905 · (v + P Σ α v)"
    evolved = evolve(preset("clusters", n=8).rescaled(0.905), 30)
    np.testing.assert_allclose(page.plot("clusters")["data"][0]["x"], evolved.v_Lnd[30, :, 0], rtol=1e-12)
    assert page.table("curves") == [list(row) for row in executed(page.python("curves"))["figures"]["curves"].table.rows]
    assert "rescale=0.905" in page.hash()


@pytest.mark.long
def test_the_room_begins_with_what_can_be_seen_and_shows_what_the_lecture_plots(visit: Visit) -> None:
    page = visit("#/dynamics")
    _, _, clusters, _ = (trace["y"] for trace in page.plot("curves")["data"])
    assert (clusters[0], clusters[-1]) == (39, 5)
    page.page.get_by_role("button", name="What the lecture plots").click()
    page.until("document.querySelector('[data-figure=lecture]')")
    v_Lnd = evolve(preset("lecture"), 2).v_Lnd
    dots, *_, beginning = page.plot("lecture")["data"]
    np.testing.assert_array_equal(np.stack((dots["x"], dots["y"]), 1), v_Lnd[2])
    np.testing.assert_array_equal(np.stack((beginning["x"], beginning["y"]), 1), v_Lnd[0])
    assert "The lecture plots V⁽⁰⁾ and V⁽²⁾" in page.page.locator("[data-caption=lecture]").text_content()
    page.open("#/dynamics?preset=low-rank&depth=3")  # a preset that the address names comes with its own settings
    assert page.page.locator("[data-control=d]").input_value() == "64"


@pytest.mark.long
def test_another_layer_asks_the_server_nothing(visit: Visit) -> None:
    page = visit("#/dynamics?preset=lecture&depth=10&beside=false")
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    page.set("layer", "7")
    np.testing.assert_array_equal(page.plot("lecture")["data"][0]["x"], evolve(preset("lecture"), 10).v_Lnd[7, :, 0])
    assert not asked


@pytest.mark.long
def test_playing_can_be_paused_and_goes_on_from_there(visit: Visit) -> None:
    page = visit("#/dynamics?preset=lecture&depth=200&beside=false&layer=0")
    page.page.locator("[data-control=play]").click()
    page.page.locator("[data-control=play]", has_text="Pause").wait_for()
    page.page.wait_for_timeout(400)
    page.page.locator("[data-control=play]").click()
    page.page.locator("[data-control=play]", has_text="Play").wait_for()
    page.settled()
    layer = int(page.page.locator("[data-control=layer]").input_value())
    assert 0 < layer < 200
    assert f"layer={layer}" in page.hash()
    np.testing.assert_allclose(page.plot("lecture")["data"][0]["x"], evolve(preset("lecture"), 200).v_Lnd[layer, :, 0])


@pytest.mark.long
def test_points_leave_a_fading_trail_of_their_last_steps(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/dynamics?preset=lecture&depth=45&beside=false&layer=30&n=6")
    v_Lnd = evolve(preset("lecture", n=6), 45).v_Lnd
    dots, *trail, beginning = page.plot("lecture")["data"]
    np.testing.assert_array_equal(np.stack((beginning["x"], beginning["y"]), 1), v_Lnd[0])
    np.testing.assert_array_equal(np.stack((dots["x"], dots["y"]), 1), v_Lnd[30])
    assert [one["opacity"] for one in trail] == sorted((one["opacity"] for one in trail), reverse=True)
    for age, one in enumerate(trail):  # three steps each, for every token
        layers = [27 - 3 * age + n for n in range(4)]
        for axis, name in enumerate("xy"):
            assert one[name] == [value for token in range(6) for value in (*v_Lnd[layers, token, axis].tolist(), None)]
    screenshot(page, "dynamics-trails")
    page.set("layer", "2")
    newest, *older = page.plot("lecture")["data"][1:-1]
    assert newest["x"][:4] == [*v_Lnd[:3, 0, 0].tolist(), None]
    assert not any(one["x"] for one in older)
    page.page.locator("#theme").click()  # drawn again, at the same layer
    page.page.wait_for_timeout(500)
    assert page.plot("lecture")["data"][0]["x"] == v_Lnd[2, :, 0].tolist()
    page.page.locator("#theme").click()
    page.set("trails", "false")
    assert not any(one["x"] for one in page.plot("lecture")["data"][1:-1])
    assert not any(one["x"] for one in visit(page.hash()).plot("lecture")["data"][1:-1])


@pytest.mark.long
def test_the_keyboard_plays_pauses_and_scrubs(visit: Visit) -> None:
    page = visit("#/dynamics?preset=lecture&depth=40&beside=false&layer=3&n=6")
    v_Lnd = evolve(preset("lecture", n=6), 40).v_Lnd
    slider, button = page.page.locator("[data-control=layer]"), page.page.locator("[data-control=play]")
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    assert page.plot("lecture")["data"][0]["x"] == v_Lnd[4, :, 0].tolist()  # at once, before the address follows
    page.until("location.hash.includes('layer=4')")
    page.page.keyboard.press(" ")
    page.until("Number(document.querySelector('[data-control=layer]').value) > 6")
    assert button.text_content() == "Pause"
    page.page.keyboard.press("Home")  # scrubbing pauses
    page.until("location.hash.includes('layer=0')")
    assert (button.text_content(), slider.input_value()) == ("Play", "0")
    assert page.plot("lecture")["data"][0]["x"] == v_Lnd[0, :, 0].tolist()
    button.focus()
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('[data-control=play]').textContent === 'Play' && location.hash.includes('layer=40')")
    assert page.plot("lecture")["data"][0]["x"] == v_Lnd[40, :, 0].tolist()


@pytest.mark.long
def test_playing_is_slow_for_those_who_prefer_less_motion(visit: Visit) -> None:
    page = visit("#/dynamics?preset=lecture&depth=40&beside=false&layer=0&n=6", reduced_motion="reduce")
    page.page.locator("[data-control=play]").click()
    page.page.wait_for_timeout(1500)
    page.page.locator("[data-control=play]").click()
    page.settled()
    assert 1 <= int(page.page.locator("[data-control=layer]").input_value()) <= 4  # otherwise about 25


@pytest.mark.long
def test_the_layers_of_a_model_have_the_same_curves(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/dynamics?preset=lecture&depth=5&beside=false&text=the+list+has+a+name.").set("run", "transformer")
    model = load(transformer_run)
    vectors = [model.embed(["the list has a name."], layer=n, pool=None)[0] for n in range(depth(model.network) + 1)]
    expected = curves(vectors)
    drawn = [trace["y"] for trace in page.plot("model")["data"]]
    assert drawn[0] == pytest.approx(expected.effective_rank)
    assert drawn[1] == pytest.approx(expected.mean_distance)
    assert drawn[2] == list(expected.clusters)
    assert page.page.locator("[data-caption=model]").text_content() == expected.summary()
    assert page.table("model") == [list(row) for row in executed(page.python("model"))["figure"].table.rows]


@pytest.mark.long
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("#/dynamics?preset=lecture&n=1&beside=false", "n is 1; expected a whole number from 2 to 256"),
        (
            "#/dynamics?preset=lecture&P=low-rank&P_rank=3&beside=false",
            "the rank of low-rank:3 is 3; expected at most the dimension, 2",
        ),
        ("#/dynamics?preset=lecture&Q=spectrum&Q_eigenvalues=many&beside=false", 'unknown matrix "spectrum:many"'),
        ("#/dynamics?preset=lecture&depth=many&beside=false", 'depth is "many"; expected a whole number'),
        ("#/dynamics?preset=lecture&p=9&depth=1000&beside=false", "the points grow without bound: they overflow after"),
        ("#/dynamics?preset=lecture&depth=5&beside=false&run=transformer&text=", "the text is empty"),
        (
            "#/dynamics?preset=lecture&depth=5&beside=false&run=transformer&text=" + "a" * 20_001,
            "text has 20,001 characters; the limit is 20,000",
        ),
    ],
)
def test_what_cannot_be_drawn_is_told_and_the_room_goes_on(visit: Visit, address: str, message: str) -> None:
    page = visit(address)
    assert message in page.alert()
    page.open("#/dynamics?preset=lecture&n=8&depth=6&beside=false")
    assert page.page.locator("[role=alert]").count() == 0
    assert len(page.plot("lecture")["data"][0]["x"]) == 8


@pytest.mark.long
def test_points_that_leave_all_bounds_are_told_with_the_layer_at_which_they_do() -> None:
    with np.errstate(all="ignore"), pytest.raises(ConfigError) as whole:
        evolve(preset("lecture", p=9.0), 1000)
    wild = ViewRequest({"preset": "lecture", "p": 9, "depth": 1000, "beside": False})
    with pytest.raises(ConfigError, match=re.escape(str(whole.value))):
        trajectory(wild, RunLibrary(), lambda what, done, total: None)
