"""On a phone, every room shows its figure first: the rest is below it, in the bar, or behind "More"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from browsing import Visit, Watched, serving

from firth.serving.lab.rooms import ROOMS

pytestmark = pytest.mark.long

PHONE = {"viewport": {"width": 390, "height": 844}}
SMALL = {"viewport": {"width": 800, "height": 400}}
# What a room shows: plots, tables and drawings, or its own kind of figure.
FIGURES = """[data-figure] .plot, [data-plain] table, [data-drawing] img, [data-look=whole] svg, .talk, [data-method],
    [data-sentence], [data-answered], .scene img"""
TOP = f"""Math.min(...[...document.querySelectorAll(`main :is({FIGURES})`)].map(one => one.getBoundingClientRect())
    .filter(({{ height }}) => height).map(({{ top }}) => top))"""
FIELDS = """[...document.querySelectorAll('[data-room] > .bar [data-control]')].filter(one =>
    one.tagName !== 'BUTTON' && one.offsetHeight && !one.closest('.more')).map(one => one.dataset.control)"""
BAR = """(() => { const { top, bottom } = document.querySelector('[data-room] > .bar').getBoundingClientRect();
    return [Math.round(top), Math.round(innerHeight - bottom)]; })()"""


# What is there to see where a room opens empty.
FILLED = {"translate": "?text=7", "chat": f"?messages={quote(json.dumps([['user', 'name 7'], ['assistant', 'seven']]))}"}


@pytest.fixture
def able_lab(room: str, lab: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A lab with runs that the room can work with."""
    known = (request.getfixturevalue(name) for name in ("library", "pair_library", "chat_library", "task_library"))
    with serving(next(one for one in known if ROOMS[room].usable(one) or not ROOMS[room].if_none)) as address:
        yield address


@pytest.mark.filterwarnings("ignore:read as <unk>")  # the small models know few words
@pytest.mark.parametrize("room", [name for name in ROOMS.kinds if name != "lesson"])  # which asks before it shows a figure
def test_on_a_phone_the_figure_comes_first(visit: Visit, able_lab: str, room: str) -> None:
    page = visit(f"#/{room}{FILLED.get(room, '')}", at=able_lab, **PHONE)
    assert page.page.evaluate(TOP) < 300
    assert 1 <= len(page.page.evaluate(FIELDS)) <= 3
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    page.page.evaluate("scrollTo(0, 1e6)")
    assert page.page.evaluate(BAR)[1] <= 1  # pixels below it


def scrolled(page: Watched, down: int) -> list[int]:
    page.page.evaluate(f"scrollTo(0, {down})")
    found: list[int] = page.page.evaluate(BAR)
    return found


def test_the_bar_stays_in_view_where_something_plays(visit: Visit) -> None:
    assert scrolled(visit("#/dynamics?depth=20&n=6", **SMALL), 500)[0] == 0
    assert scrolled(visit("#/playground?shown=5", **SMALL), 500)[0] == 0
    assert scrolled(visit("#/describe", **SMALL), 500)[0] < 0
    for down in (0, 200):
        assert scrolled(visit("#/dynamics?depth=20&n=6", **PHONE), down)[1] == 0


def test_more_remembers_being_open_for_each_room(visit: Visit) -> None:
    page = visit("#/dynamics?depth=3")
    page.page.evaluate("localStorage.clear()")
    page.page.reload()
    page.settled()
    details = page.page.locator(".bar > .more")
    assert details.get_attribute("open") is None
    details.locator("summary").click()
    page.open("#/playground").until("document.body.dataset.ready === 'playground'")
    assert details.get_attribute("open") is None
    page.open("#/dynamics?depth=4").until("document.body.dataset.ready === 'dynamics'")
    assert details.get_attribute("open") is not None
    details.locator("summary").click()
    page.until("localStorage.getItem('more-dynamics') === 'closed'")
    page.page.reload()
    assert page.settled().page.locator(".bar > .more").get_attribute("open") is None


def test_what_a_view_needs_is_in_front_of_more(visit: Visit) -> None:
    page = visit("#/compare?length=5&size=1000")
    assert page.page.evaluate(FIELDS) == ["look", "length", "size"]
    page.page.locator("[data-control=look]").focus()
    page.set("look", "lengths")
    assert page.page.evaluate(FIELDS) == ["look"]  # there is no translator
    assert page.page.locator(".bar > .more").is_hidden()
    page.set("look", "flow")
    assert page.page.evaluate(FIELDS) == ["look", "length", "size"]
    order = "[...document.querySelectorAll('.bar [data-control]')].map(one => one.dataset.control)"
    shown = page.page.evaluate(order)
    assert shown[:3] + sorted(shown[3:]) == ["look", "length", "size", *sorted(shown[3:])]
    assert page.page.locator("[data-control=gain]").evaluate("one => Boolean(one.closest('.more'))")
