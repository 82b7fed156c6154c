"""How long the lab takes to open, to change rooms and to walk through a model, in the Chromium of this machine:

    python benchmarks/lab.py tour/runs tour/words.firth [--rounds 5]

The runs are those of `firth tour`, or any others. For the walk there is one more, a Transformer of GPT-2's shape (12 blocks of
width 768, 12 heads) after one step of training, and a text of 30 tokens. Targets: the first room has its controls within 1 s,
another room shows something within 0.3 s, the walk is open 2 s after its forward pass and plays at 60 frames per second.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from playwright.sync_api import sync_playwright

import firth

ROOMS = ("walk", "attention", "words", "translate", "dynamics", "playground", "describe", "training")
TOKENS = 30
TEXT = 9 * "the list of all items in this file is empty and each of them has a name "
SETTINGS = {
    "tokenizer.kind": "bpe",
    "tokenizer.vocab": 8192,
    "model.kind": "transformer",
    "model.width": 768,
    "model.depth": 12,
    "model.attention.heads": 12,
    "model.feedforward.hidden": 3072,
    "model.context": 64,
    "training.context": 32,
    "training.batch": 2,
    "training.steps": 1,
    "training.device": "cpu",
}
FEEDBACK = """name => new Promise(done => {
  const began = performance.now(), before = document.title;
  const look = () => document.title !== before ? done(performance.now() - began) : requestAnimationFrame(look);
  location.hash = name; look();
})"""
FRAMES = """seconds => new Promise(done => {
  const at = [];
  const tick = now => { at.push(now); at.at(-1) - at[0] < 1000 * seconds ? requestAnimationFrame(tick) : done(at); };
  requestAnimationFrame(tick);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="runs, folders of runs, or files of word vectors")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}; median of {options.rounds}")
    with tempfile.TemporaryDirectory() as name:
        large = train_gpt2(Path(name))
        with lab([*options.runs, large]) as address, chromium() as browser:
            opening(browser, address, options.rounds)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            settled(page)
            changing(page)
            walking(page, large, options.rounds)


def train_gpt2(folder: Path) -> Path:
    run = folder / "gpt2-shape"
    overrides = [f"--{name}={value}" for name, value in SETTINGS.items()]
    subprocess.run([sys.executable, "-m", "firth", "train", "docs-char-transformer", "--out", run, *overrides], check=True)
    return run


@contextmanager
def lab(places: list[Path]) -> Iterator[str]:
    command = [sys.executable, "-m", "firth", "lab", *map(str, places), "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(line for line in server.stdout if "http://" in line).split(" at ")[1].split()[0]
        finally:
            server.terminate()


@contextmanager
def chromium() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


def opening(browser: Any, address: str, rounds: int) -> None:
    """With an empty cache each time, from the request of the page until controls are there."""
    for name, place, there in (
        ("first page", "", "[data-card]"),
        ("first room, its controls", "#/walk", "[data-control=text]"),
        ("first room, all of it", "#/walk", "body[data-busy=no][data-ready]"),
    ):

        def once(place: str = place, there: str = there) -> float:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            began = time.perf_counter()
            page.goto(address + place, wait_until="commit")
            page.wait_for_selector(there, state="attached")
            seconds = time.perf_counter() - began
            context.close()
            return seconds

        told(name, once, rounds)


def changing(page: Any) -> None:
    for room in ROOMS:
        first = page.evaluate(FEEDBACK, f"#/{room}") / 1000
        settled(page)
        print(f"{'to ' + room:28}{first:8.3f} s to the first feedback", flush=True)


def walking(page: Any, large: Path, rounds: int) -> None:
    run = firth.load(large, "cpu")
    text = next(TEXT[:end] for end in range(len(TEXT)) if len(run.tokenizer.encode(TEXT[:end])) == TOKENS)
    token_1T = torch.tensor([run.tokenizer.encode(text).tolist()])
    with torch.inference_mode():
        forward = told("GPT-2's shape, forward pass", lambda: timed(lambda: run.network.hidden(token_1T)), rounds)

    def once() -> float:
        page.evaluate("location.hash = '#/'")
        page.wait_for_selector("[data-card]")
        page.evaluate("delete document.body.dataset.ready")
        began = time.perf_counter()
        page.evaluate("address => { location.hash = address; }", f"#/walk?run={large.name}&text={quote(text)}")
        settled(page)
        return time.perf_counter() - began

    opened = told("the walk opens", once, rounds)
    print(f"{'after its forward pass':28}{opened - forward:8.3f} s")
    page.locator("[data-control=play]").click()
    at = page.evaluate(FRAMES, 5)
    gaps = [after - before for before, after in pairwise(at)]
    print(f"playing: {len(gaps) / (at[-1] - at[0]) * 1000:.1f} frames per second, the longest after {max(gaps):.0f} ms")


def settled(page: Any) -> None:
    page.wait_for_selector("body[data-busy=no][data-ready]", timeout=60_000)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def told(name: str, once: Callable[[], float], rounds: int) -> float:
    """The first of all rounds is not counted."""
    seconds = statistics.median([once() for _ in range(rounds + 1)][1:])
    print(f"{name:28}{seconds:8.3f} s", flush=True)
    return seconds


if __name__ == "__main__":
    main()
