"""The page around the rooms, in a browser: the way between them, keys, colours, what is slow, and who else is there."""

from __future__ import annotations

import dataclasses
import http.server
import shutil
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from browsing import Screenshot, Stage, Visit, listening, serving

from firth.experiments.describe import describe
from firth.figures.figure import Figure, Table
from firth.progress import Progress
from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Cancelled, Room
from firth.serving.lab.rooms import ROOMS, rooms
from firth.serving.lab.streaming import warnings_as_notes

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'</pre>"


def test_the_first_page_leads_to_every_room(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("")
    cards = page.page.locator("main .cards a")
    assert cards.all_text_contents() == [room.title for room in ROOMS]
    assert "char: language model, gru, next-token" in page.page.locator("main").inner_text()
    screenshot(page, "first")
    page.page.get_by_role("navigation").get_by_role("link", name="Describe").click()
    page.until("document.body.dataset.ready === 'describe'")
    assert page.page.locator("[aria-current=page]").text_content() == "Describe"
    assert page.page.title() == "Describe · firth lab"
    page.page.go_back()
    page.until("document.body.dataset.ready === 'home'")


@pytest.mark.long
@pytest.mark.parametrize("room", list(ROOMS.kinds))
def test_every_room_opens_without_a_complaint(visit: Visit, room: str) -> None:
    page = visit(f"#/{room}")
    assert page.page.locator(f"[data-room={room}]").count() == 1
    assert page.page.locator("[role=alert]").count() == 0
    unlabelled = """() => [...document.querySelectorAll('main input, main select, main textarea')].filter(box =>
        !box.labels.length && !box.getAttribute('aria-label')).map(box => box.outerHTML)"""
    assert page.page.evaluate(unlabelled) == []


@pytest.mark.long
def test_with_nothing_in_the_library_every_room_opens_and_the_page_says_how_to_make_something(visit: Visit) -> None:
    with serving(RunLibrary()) as address:
        page = visit("", at=address)
        page.page.reload()
        page.settled()
        assert "firth tour" in page.page.locator("[data-no-runs]").text_content()
        for name, room in rooms().items():
            page.open(f"#/{name}").until(f"document.body.dataset.ready === '{name}'")
            told = page.page.locator("[data-if-none]")
            if room.usable(RunLibrary()) or not room.if_none:
                assert told.count() == 0, name
            else:
                assert told.text_content() == room.if_none
                assert "firth" in page.page.locator("[data-command]").text_content()
            assert page.page.locator("[role=alert]").count() == 0, name


@pytest.mark.long
def test_a_room_that_is_not_there_is_told_as_text(visit: Visit) -> None:
    page = visit(f"#/{EVIL}")
    assert "There is no room" in page.alert()
    assert page.page.locator("main img, main script").count() == 0


@pytest.mark.long
def test_text_that_looks_like_markup_is_shown_and_never_run(visit: Visit) -> None:
    page = visit("#/describe")
    page.set("settings", EVIL.replace(" ", ""))
    assert EVIL.replace(" ", "")[:20] in page.alert()
    page = visit(f"#/training?runs={EVIL}")
    assert "<img src=x onerror=alert(1)>" in page.alert()
    assert page.page.locator("main img, main script").count() == 0


@pytest.mark.long
def test_a_figure_of_evil_text_runs_nothing(visit: Visit) -> None:
    """Whatever a room forgot to escape: Plotly leaves out scripts, the policy of the page stops what is left, tables are text."""

    def evil(asked: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        plot = go.Figure(go.Bar(x=[1, 2], y=[EVIL, '<a href="javascript:alert(3)">x</a>'], name=EVIL, orientation="h"))
        plot.update_layout(title=EVIL, annotations=[{"text": EVIL, "x": 1, "y": 1}])
        table = Table((EVIL,), [(EVIL,)])
        return ViewResult({"parameters": Figure(plot, table)}, EVIL, {"summary": EVIL}, table, {"parameters": EVIL})

    with serving(RunLibrary(), rooms=_rooms(evil)) as address:
        page = visit("#/describe", at=address)
        assert page.page.locator("[data-summary]").text_content() == EVIL
        assert page.table("parameters") == [[EVIL]]
        assert page.table("totals") == [[EVIL]]
        assert page.python() == f"{EVIL}figures['parameters'].plot\n"
        ours = "main img:not([data-on])"  # the drawing of the model is an image
        assert page.page.locator(f"{ours}, main script, main a[href^=javascript]").count() == 0


@pytest.mark.long
def test_the_keyboard_reaches_everything(visit: Visit) -> None:
    page = visit("#/describe?of=gpt2")
    page.page.reload()  # nothing has the focus yet
    page.settled()
    keys = page.page.keyboard
    keys.press("Tab")
    focused = "document.activeElement"
    assert page.page.evaluate(f"{focused}.className") == "skip"
    keys.press("Enter")
    assert page.page.evaluate(f"{focused}.id") == "room"
    assert page.hash().startswith("#/describe?of=gpt2")
    for example in ROOMS["describe"].examples:
        keys.press("Tab")
        assert page.page.evaluate(f"{focused}.dataset.example") == example.label
    keys.press("Tab")
    assert page.page.evaluate(f"{focused}.dataset.control") == "of"
    outline = page.page.evaluate(f"getComputedStyle({focused}).outlineStyle")
    assert outline != "none"
    keys.type("gpt3")
    page.until("document.querySelector('[data-table=totals]').textContent.includes('175,181,291,520')")
    keys.press("Tab")
    keys.type("model.dept=2")
    keys.press("Enter")
    page.until("document.querySelector('[role=alert]') !== null")
    assert 'Did you mean "depth"' in page.alert()


@pytest.mark.long
def test_the_table_opens_and_closes_by_keys(visit: Visit) -> None:
    page = visit("#/describe?of=gpt2")
    summary = page.page.locator("details[data-numbers=parameters] summary")
    summary.focus()
    page.page.keyboard.press("Enter")
    assert len(page.table("parameters")) == len(describe("gpt2").of.parts)
    assert page.page.locator("[data-table=parameters]").is_visible()
    page.page.keyboard.press("Enter")
    assert not page.page.locator("[data-table=parameters]").is_visible()


@pytest.mark.long
def test_light_and_dark_follow_the_machine_and_the_button(visit: Visit, screenshot: Screenshot) -> None:
    def colours() -> tuple[str, str]:
        paper = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = page.page.locator("[data-figure=parameters] .ytick text").first.evaluate("text => getComputedStyle(text).fill")
        return paper, ink

    page = visit("#/describe?of=gpt2", color_scheme="dark")
    dark = colours()
    assert dark == ("rgb(28, 28, 30)", "rgb(232, 232, 228)")
    screenshot(page, "dark")
    button = page.page.locator("#theme")
    assert button.text_content() == "Light"
    button.click()
    page.until("getComputedStyle(document.querySelector('[data-figure=parameters] .ytick text')).fill === 'rgb(27, 27, 27)'")
    assert colours()[0] == "rgb(253, 253, 251)"
    page.page.reload()
    page.settled()
    assert colours()[0] == "rgb(253, 253, 251)"  # it is remembered


@pytest.mark.long
def test_what_a_view_warns_of_stands_above_its_answer(visit: Visit) -> None:
    def warning(asked: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        if asked.text("of") == "gpt2":
            warnings.warn(f"never seen: {EVIL}", stacklevel=1)
        return ROOMS["describe"].views["count"](asked, library, progress)

    with warnings_as_notes(), serving(RunLibrary(), rooms=_rooms(warning)) as address:
        page = visit("#/describe?of=gpt2", at=address)
        assert page.page.locator("[data-note]").all_text_contents() == [f"never seen: {EVIL}"]
        assert page.set("of", "gpt3").page.locator("[data-note]").count() == 0
        assert page.set("of", "gpt2").page.locator("[data-note]").count() == 1


def _rooms(view: object) -> Mapping[str, Room]:
    """The lab's rooms, with another view in the place of Describe's."""
    room = ROOMS["describe"]
    return {**rooms(), "describe": dataclasses.replace(room, views={**room.views, "count": view})}  # type: ignore[dict-item]


class Slow:
    """A view that works until it is cancelled, or told to end."""

    def __init__(self) -> None:
        self.begun, self.cancelled, self.end = threading.Semaphore(0), threading.Event(), threading.Event()

    def __call__(self, asked: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        if asked.text("of", "gpt2") == "gpt3":
            self.begun.release()
            try:
                while not self.end.wait(0.02):
                    progress("thinking hard", 3, 10)
            except Cancelled:
                self.cancelled.set()
                raise
        return ROOMS["describe"].views["count"](asked, library, progress)


@contextmanager
def slow_lab() -> Iterator[tuple[str, Slow]]:
    slow = Slow()
    with serving(RunLibrary(), rooms=_rooms(slow)) as address:
        try:
            yield address, slow
        finally:
            slow.end.set()


def test_slow_work_shows_progress_and_can_be_cancelled(visit: Visit) -> None:
    with slow_lab() as (address, slow):
        page = visit("#/describe?of=gpt2", at=address)
        page.page.locator("[data-control=of]").select_option("gpt3")
        bar = page.page.get_by_role("progressbar")
        bar.wait_for()
        page.page.get_by_text("thinking hard").wait_for()
        assert bar.get_attribute("aria-valuenow") == "30"
        page.page.get_by_role("button", name="Cancel").click()
        assert slow.cancelled.wait(20), "the server went on working"
        page.settled()
        assert page.page.get_by_text("Cancelled.").count() == 1
        assert page.page.get_by_role("progressbar").count() == 0
        page.set("of", "bert-base")
        assert page.page.get_by_text("Cancelled.").count() == 0
        assert page.plot("parameters")["data"][0]["x"] == [part.weights for part in describe("bert-base").of.parts]


@pytest.mark.long
def test_a_newer_question_and_leaving_stop_the_older_one(visit: Visit) -> None:
    with slow_lab() as (address, slow):
        page = visit("#/describe?of=gpt2", at=address)
        for leave in (
            lambda: page.set("of", "t5-small"),
            lambda: page.page.get_by_role("navigation").get_by_role("link", name="Dynamics").click(),
        ):
            slow.cancelled.clear()
            page.page.locator("[data-control=of]").select_option("gpt3")
            assert slow.begun.acquire(timeout=20)
            leave()
            assert slow.cancelled.wait(20)
        page.until("document.body.dataset.ready === 'dynamics'")
        assert page.page.locator("[role=alert]").count() == 0


@pytest.mark.long
def test_two_people_use_the_lab_at_once(visit: Visit) -> None:
    with slow_lab() as (address, slow):
        first, second = visit("#/describe?of=gpt2", at=address), visit("#/describe?of=gpt2", at=address)
        first.page.locator("[data-control=of]").select_option("gpt3")
        assert slow.begun.acquire(timeout=20)
        second.set("of", "t5-base")  # while the other one waits
        assert second.plot("parameters")["data"][0]["x"] == [part.weights for part in describe("t5-base").of.parts]
        slow.end.set()
        assert sum(first.settled().plot("parameters")["data"][0]["x"]) == describe("gpt3").of.parameters


@pytest.mark.long
def test_the_page_says_when_the_lab_has_ended(visit: Visit) -> None:
    with listening(build(RunLibrary())) as address:
        page = visit("#/describe?of=gpt2", at=address, expect=("ERR_CONNECTION_REFUSED",))
    page.set("of", "gpt3")
    assert "The lab does not respond" in page.alert()


@pytest.mark.long
def test_a_page_that_is_reloaded_after_a_restart_waits_for_the_new_address(chromium: Any) -> None:
    stage = Stage()
    context = chromium.new_context()
    with listening(stage) as address:
        with stage.showing(build(RunLibrary(), token="one")):
            page = context.new_page()
            page.goto(f"{address}/?token=one#/describe?of=gpt3")
            page.wait_for_selector("body[data-ready=describe]")
        with stage.showing(build(RunLibrary(), token="two")):
            page.reload()
            assert "Open the address in the terminal" in page.locator("h1").text_content()
            assert page.locator("pre").is_visible()
            other = context.new_page()
            other.goto(f"{address}/?token=two")
            page.wait_for_selector("body[data-ready=describe]", timeout=20_000)
            assert "of=gpt3" in page.url
    context.close()


@contextmanager
def other_page() -> Iterator[str]:
    """A page of another server on this machine, free to do what pages do."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href='data:,'><title>elsewhere</title><body>")

        def log_message(self, *given: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
def test_another_page_can_neither_post_to_the_lab_nor_read_nor_frame_it(window: Any) -> None:
    asked: list[str] = []

    def count(asked_for: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        asked.append(asked_for.text("of"))
        return ViewResult({}, "")

    attempts = """async lab => {
        const answers = [];
        for (const mode of ['cors', 'no-cors'])
            for (const type of ['text/plain', 'application/json'])
                answers.push(await fetch(`${lab}/api/describe/count`, {
                    method: 'POST', mode, body: '{"of": "gpt2"}', headers: {'Content-Type': type},
                }).then(answer => answer.text(), () => 'refused'));
        answers.push(await fetch(`${lab}/api/lab`).then(answer => answer.text(), () => 'refused'));
        const frame = document.createElement('iframe');
        frame.src = lab;
        await new Promise(loaded => { frame.onload = loaded; document.body.append(frame); });
        return answers;
    }"""
    with serving(RunLibrary(), rooms=_rooms(count)) as lab, other_page() as elsewhere:
        page = window.new_page()
        page.goto(elsewhere)
        answers = page.evaluate(attempts, lab)
        assert set(answers) <= {"refused", ""}  # of what is sent without CORS, the answer cannot be read
        assert not asked
        assert page.frames[1].locator("nav").count() == 0
        page.goto(f"{lab}/#/describe")  # the lab's own page asks, and is answered
        page.wait_for_selector("body[data-ready=describe]")
        assert asked
        page.close()


@pytest.mark.long
def test_a_run_that_disappears_is_told_and_the_room_goes_on(visit: Visit, char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "gone")
    with serving(RunLibrary([tmp_path / "gone", char_run])) as address:
        page = visit("#/describe?of=gone", at=address)
        assert page.table("totals")
        shutil.rmtree(tmp_path / "gone")
        page.set("of", "gpt2").set("of", "gone")
        assert 'the run "gone" is no longer in' in page.alert()
        page.set("of", "char")
        assert page.page.locator("[role=alert]").count() == 0
