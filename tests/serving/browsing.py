"""A lab that is served, a page of it that is watched, and small word vectors: for the tests of the lab."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import uvicorn

from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.workshop import Workshop
from firth.vectors import WordVectors

WORDS = ("king", "queen", "man", "woman", "prince", "princess", "boy", "girl", "apple", "pear", "<b>bold</b>", "tree")


def small_vectors() -> WordVectors:
    """Royal is the first number, female the second, fruit the third; the fourth tells words apart."""
    row = {
        "king": (1, 0, 0), "queen": (1, 1, 0), "man": (0, 0, 0), "woman": (0, 1, 0), "prince": (0.8, 0, 0),
        "princess": (0.8, 1, 0), "boy": (0, 0, 0), "girl": (0, 1, 0), "apple": (0, 0, 1), "pear": (0, 0.1, 1),
        "<b>bold</b>": (0.3, 0.3, 0.3), "tree": (0, 0, 0.5),
    }  # fmt: skip
    noise = np.random.default_rng(0).normal(0, 0.05, (len(WORDS), 4))
    vectors = np.array([(*row[word], 0.5) for word in WORDS]) + noise
    return WordVectors(list(WORDS), vectors.astype(np.float32), np.arange(len(WORDS), 0, -1, dtype=np.int64))


class Stage:
    """A server on a free port of which the lab can be changed: to a browser, each other port is another site, for which it
    compiles all of Plotly anew."""

    def __init__(self) -> None:
        self.labs: list[Any] = []  # the last one answers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.labs[-1](scope, receive, send)

    @contextmanager
    def showing(self, lab: Any) -> Iterator[None]:
        self.labs.append(lab)
        try:
            yield
        finally:
            self.labs.remove(lab)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The address of an application, served until the block ends."""
    place = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        place.close()


_stages: dict[str, Stage] = {}  # by its address, while the tests last


@contextmanager
def staged(library: RunLibrary) -> Iterator[str]:
    """The address of a lab over `library`, whose place others take for a while."""
    stage = Stage()
    with stage.showing(build(library)), listening(stage) as address:
        _stages[address] = stage
        yield address
        del _stages[address]


@contextmanager
def serving(library: RunLibrary, **settings: Any) -> Iterator[str]:
    """The address of a lab over `library`, which takes the place of the tests' usual one until the block ends."""
    if not _stages:
        with listening(build(library, **settings)) as address:
            yield address
        return
    ((address, stage),) = _stages.items()
    with stage.showing(build(library, **settings)):
        yield address


@contextmanager
def workshop_in(folder: Path, library: RunLibrary) -> Iterator[tuple[str, RunLibrary]]:
    """The address of a lab over `library` that trains into `folder`; a training that still runs is stopped at the end."""
    library.workshop = Workshop(folder)
    with serving(library) as address:
        yield address, library
    library.workshop.stop()
    if library.workshop.job is not None:
        library.workshop.job.process.wait(60)


class Watched:
    """A page of the lab that remembers everything that went wrong on it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.wrong: list[str] = []
        page.on("console", lambda message: self.wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(f"{error}"))
        page.on("dialog", lambda dialog: (self.wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))

    def open(self, address: str) -> Watched:
        """`#/describe?of=gpt3`; waits for the picture."""
        target = f"{self.address}/{address}"
        if self.page.url.startswith(self.address) and self.page.url != target:
            self.page.evaluate("delete document.body.dataset.ready")  # so that what is there now is not taken for what comes
        self.page.goto(target)
        return self.settled()

    def leave(self) -> None:
        """Whatever room is open is left for the first page; what went wrong, and what was open behind "More", is forgotten."""
        self.wrong.clear()
        self.page.evaluate("localStorage.clear()")
        # The page asks what there is whenever its first page opens, also if it is open already: the lab may be another one now.
        self.page.evaluate("delete document.body.dataset.ready; location.hash = '#/'; dispatchEvent(new Event('hashchange'))")
        self.page.wait_for_selector("body[data-busy=no][data-ready=home]", timeout=60_000)

    def settled(self) -> Watched:
        self.page.wait_for_selector("body[data-busy=no][data-ready]", timeout=60_000)
        return self

    def set(self, name: str, value: str) -> Watched:
        """Gives a control a value, as a user does, and waits for the new picture."""
        control = self.control(name)
        match control.evaluate("box => box.tagName === 'SELECT' ? 'select' : box.type"):
            case "select":
                # by its place: select_option(value) also takes an option whose label is that text, such as head "1" of value 0
                place = control.evaluate("(box, value) => [...box.options].findIndex(one => one.value === value)", value)
                control.select_option(index=place)
            case "range":
                control.fill(value)
            case "checkbox":
                control.set_checked(value == "true")
            case _:
                control.fill(value)
                control.blur()
        return self.settled()

    def control(self, name: str) -> Any:
        """A control, in view: "More" is opened if it is there."""
        control = self.page.locator(f"[data-control={name}]")
        control.evaluate("box => { for (let one = box; one = one.parentElement?.closest('details');) one.open = true; }")
        return control

    def press(self, name: str) -> Watched:
        self.control(name).click()
        return self.settled()

    def plot(self, name: str) -> dict[str, Any]:
        """{"data": […], "layout": {…}} of a figure as Plotly holds it in the page; arrays as lists."""
        script = "div => JSON.parse(JSON.stringify({data: div.data, layout: div.layout}))"
        found: dict[str, Any] = decoded(self.page.locator(f"[data-figure='{name}'] .plot").evaluate(script))
        return found

    def table(self, name: str) -> list[list[str]]:
        """The rows of a table; that of a figure is opened first."""
        details = self.page.locator(f"details[data-numbers='{name}']")
        if details.count() and not details.evaluate("one => one.open"):
            details.locator("summary").click()
        self.page.wait_for_selector(f"[data-table='{name}']")
        script = "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
        found: list[list[str]] = self.page.locator(f"[data-table='{name}']").evaluate(script)
        return found

    def python(self, name: str | None = None) -> str:
        """The code that the button copies, for the figure `name` or the first one."""
        place = self.page.locator(f"[data-figure='{name}']") if name else self.page
        place.locator("[data-testid=copy-python]").first.click()
        code: str = self.page.evaluate("navigator.clipboard.readText()")
        return code

    def alert(self) -> str:
        found: str = self.page.locator("[role=alert]").first.text_content()
        return found

    def until(self, condition: str) -> Watched:
        """Waits for a condition in JavaScript; not by wait_for_function, whose eval the page's policy forbids."""
        for _ in range(600):
            if self.page.evaluate(condition):
                return self.settled()
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never became true: {condition}")

    def hash(self) -> str:
        found: str = self.page.evaluate("location.hash")
        return found


def decoded(value: Any) -> Any:
    """Plotly sends numpy's arrays as {"dtype", "bdata", "shape"}."""
    match value:
        case {"dtype": str(dtype), "bdata": str(data)}:
            array = np.frombuffer(base64.b64decode(data), dtype)
            shape = [int(size) for size in str(value.get("shape", len(array))).split(",")]
            return array.reshape(shape).tolist()
        case dict():
            return {key: decoded(one) for key, one in value.items()}
        case list():
            return [decoded(one) for one in value]
    return value


def executed(code: str) -> dict[str, Any]:
    """The names that a copied program leaves behind."""
    names: dict[str, Any] = {}
    exec(compile(code, "copied.py", "exec"), names)
    return names


class Visit(Protocol):
    def __call__(self, address: str, *, at: str = ..., expect: tuple[str, ...] = (), **settings: Any) -> Watched: ...


Screenshot = Callable[[Watched, str], Path]
