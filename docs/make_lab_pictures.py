"""Takes the pictures of docs/lab.md and README: screenshots of the lab with the runs of a tour, in this machine's Chromium.

    firth tour --out tour
    python docs/make_lab_pictures.py tour [name …]

The runs learn from the documentation on your disk, so the pictures differ a little from machine to machine. Some rooms show
runs that a tour does not have, in tour/runs: chat, trained as docs/chat.md says; and reviews, captions and questions, which
the buttons of the rooms Classify, Caption and Question answering train.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from playwright.sync_api import Page, sync_playwright

from firth.serving.lab.app import build
from firth.serving.lab.library import tour_library

FOLDER = Path(__file__).resolve().parent / "lab"
LARGEST = 150_000  # bytes
WIDTH = 1100


def _room(name: str, **state: object) -> str:
    return f"#/{name}?{urlencode(state)}"


CHAT = [
    ["user", "name 7"],
    ["assistant", "seven"],
    ["user", "again"],
    ["assistant", "seven"],
    ["user", "and 2"],
    ["assistant", "two"],
]

# The address of each picture, and its height in pixels.
PICTURES = {
    "first": ("", 1000),
    "walk": (_room("walk", run="transformer", text="the list is empty", stage=1), 1000),
    "build": (_room("build", kind="transformer", width=64, depth=2), 1000),
    "classify": (_room("classify", run="reviews", text="not a dull film"), 960),
    "tag": (_room("tag", run="tags-lstm"), 760),
    "answer": (_room("answer", run="questions"), 640),
    "caption": (_room("caption", run="captions", number=3), 1180),
    "words": (_room("words", look="neighbours", vectors="words.firth", word="list"), 720),
    "words-map": (_room("words", look="map", vectors="words.firth"), 1000),
    "search": (_room("search", query="random numbers", documents="programs", vectors="words.firth", run="", top=4), 800),
    "generate": (_room("generate", run="transformer", prompt="The list of ", temperature=0.7), 1080),
    "chat": (_room("chat", run="chat", messages=json.dumps(CHAT)), 800),
    "inspect": (_room("inspect", run="gru", look="flow", text="the list is empty, so the first of them is None"), 1000),
    "attention": (_room("attention", run="transformer", text="the list is empty"), 1180),
    "translate": (_room("translate", run="dates-rnnsearch", text="14 November 2026", beam=3), 1420),
    "playground": (_room("playground", of="scores", shown=5), 1180),
    "dynamics": (_room("dynamics", depth=60, layer=40), 1170),
    "compare": (_room("compare", look="flow"), 820),
    "describe": (_room("describe", of="gpt3"), 960),
    "lesson": (_room("lesson/alignment", step=2, answer="1"), 1100),
    "training": (_room("training", runs="rnn\nlstm\ngru\ntransformer", against="tokens"), 960),
}

FRONT = "walk"  # README's picture


@contextmanager
def serving(tour: Path) -> Iterator[str]:
    library = tour_library(tour)
    if not library.runs or not library.vectors:
        sys.exit(f"{tour} does not contain a tour; make one with: firth tour --out {tour}")
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(build(library), log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@contextmanager
def browsing() -> Iterator[Page]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("there is no Chromium on this machine; install it (on Debian: apt-get install chromium)")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if root else [])
        yield browser.new_page()
        browser.close()


def take(page: Page, lab: str, name: str) -> Path:
    address, height = PICTURES[name]
    page.goto("about:blank")  # opening an address within the same page would keep the state of the last picture
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(f"{lab}/{address}")
    page.wait_for_selector("body[data-busy=no][data-ready]", timeout=120_000)
    told = page.locator("[role=alert]")
    if told.count():
        sys.exit(f"{name}: {told.first.text_content()}")
    page.wait_for_timeout(300)  # the end of Plotly's transitions
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > LARGEST:
        sys.exit(f"{path} has {size:,} bytes; expected at most {LARGEST:,}; reduce its height")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tour", type=Path, help="the folder that `firth tour` wrote")
    parser.add_argument("names", nargs="*", help=f"pictures to take: {', '.join(PICTURES)} (default: all)")
    given = parser.parse_args()
    for name in given.names:
        if name not in PICTURES:
            parser.error(f"there is no picture {name}; expected {', '.join(PICTURES)}")
    with serving(given.tour) as lab, browsing() as page:
        for name in given.names or PICTURES:
            print(take(page, lab, name))


if __name__ == "__main__":
    main()
