"""The lab as its users have it: a real server on a free port, and a real Chromium.

Where there is no Chromium the tests that need one are skipped, or fail if FIRTH_BROWSER=required.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Screenshot, Visit, Watched, serving, small_vectors, staged
from captioned import caption_table
from chat_lines import trained_on_digits
from questions import answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from runs import trained_once
from tags import tagger_table
from tags import write as write_tags
from translations import pair_table, trained_on_numbers, write_pairs

from firth.api import compose, train_recipe
from firth.serving.lab.library import RunLibrary


@pytest.fixture(scope="session")
def vectors_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "small.firth"
    small_vectors().save(path)
    return path


@pytest.fixture(scope="session")
def library(char_run: Path, transformer_run: Path, bpe_run: Path, vectors_file: Path) -> RunLibrary:
    """char (GRU), transformer, bpe (Transformer over subwords) and small.firth."""
    return RunLibrary([char_run, transformer_run, bpe_run], [vectors_file])


@pytest.fixture(scope="session")
def lab(library: RunLibrary) -> Iterator[str]:
    """The address of a lab over `library`; tests that need another library put it in its place with `serving`."""
    with staged(library) as address:
        yield address


@pytest.fixture(scope="session")
def pair_library() -> RunLibrary:
    """rnnsearch, transformer and rnnenc: digits → their names, as well as a few seconds teach it."""
    folder = trained_once("pairs", _train_pairs)
    return RunLibrary([folder / name for name in ("rnnsearch", "transformer", "rnnenc")])


def _train_pairs(folder: Path) -> None:
    shutil.copytree(trained_on_numbers(), folder / "rnnsearch")
    pairs = write_pairs(folder / "numbers.tsv")
    for name, steps in (("transformer", 60), ("rnnenc", 5)):
        train_recipe(compose(pair_table(pairs, name, steps=steps)), folder / name)


@pytest.fixture(scope="session")
def chat_library(char_run: Path) -> RunLibrary:
    """digits, which names digits and remembers the last one, and char, which holds no conversations."""
    return RunLibrary([trained_on_digits(), char_run])


@pytest.fixture(scope="session")
def task_library(tmp_path_factory: pytest.TempPathFactory) -> RunLibrary:
    """tagger, classifier, answers, captioner and digits."""
    folder = tmp_path_factory.mktemp("tasks")
    tables = {
        "tagger": tagger_table(write_tags(folder / "tags.conll"), steps=30),
        "classifier": classifier_table(write_reviews(folder / "reviews.csv"), steps=30),
        "answers": answer_table(write_questions(folder / "questions.jsonl"), steps=20),
        "captioner": caption_table({"name": "scenes", "count": 40, "size": 24, "kinds": ["one", "relation"]}),
        "digits": caption_table({"name": "digits"}, steps=2),
    }
    return RunLibrary([train_recipe(compose(table), folder / name).path for name, table in tables.items()])


@pytest.fixture
def pair_lab(lab: str, pair_library: RunLibrary) -> Iterator[str]:
    """The address of a lab over `pair_library`."""
    with serving(pair_library) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The system's Chromium, started once."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        reason = "there is no Chromium on this machine; install it (on Debian: apt-get install chromium)"
        pytest.fail(reason) if os.environ.get("FIRTH_BROWSER") == "required" else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        # All pages in one process, which then has Plotly compiled for the second of them.
        browser = playwright.chromium.launch(executable_path=program, args=["--process-per-site", *["--no-sandbox"] * root])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def window(chromium: Any) -> Any:
    """Context of the pages of all tests: they share the cache, which holds Plotly, and the clipboard."""
    return _window(chromium)


def _window(chromium: Any, **settings: Any) -> Any:
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}} | settings)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    return context


@pytest.fixture(scope="session")
def kept_pages() -> dict[str, Watched]:
    """A page of each lab that lives as long as the tests: to load Plotly takes longer than most of them."""
    return {}


@pytest.fixture
def visit(chromium: Any, window: Any, lab: str, kept_pages: dict[str, Watched]) -> Iterator[Visit]:
    """visit("#/describe?of=gpt3") opens a page of the lab; at the end of the test no page may have complained.

    The first of a test is a page that earlier tests used, and that comes to the room from elsewhere; all others are new, so that
    what they show is what their address says. visit(…, at=address) opens that of another lab, visit(…, expect=("…",)) allows
    complaints with that text, and what else is given makes a window of its own: visit(…, color_scheme="dark")."""
    own: list[Any] = []
    opened: list[tuple[Watched, tuple[str, ...]]] = []
    new: list[Watched] = []

    def call(address: str, *, at: str = lab, expect: tuple[str, ...] = (), **settings: Any) -> Watched:
        if settings:
            own.append(_window(chromium, **settings))
        used = {id(one) for one, _ in opened}
        watched = kept_pages.get(at)
        if settings or at != lab or (watched is not None and id(watched) in used):
            watched = Watched((own[-1] if settings else window).new_page(), at)
            new.append(watched)
        elif watched is None:
            watched = kept_pages[at] = Watched(window.new_page(), at)
        else:
            watched.leave()
        opened.append((watched, expect))
        return watched.open(address)

    yield call
    complaints = [text for one, allowed in opened for text in one.wrong if not any(part in text for part in allowed)]
    for watched in new:
        watched.page.close()
    for context in own:
        context.close()
    assert not complaints, complaints


@pytest.fixture
def screenshot(tmp_path: Path) -> Screenshot:
    """screenshot(page, "describe") keeps a picture: in FIRTH_SCREENSHOTS, or in the folder that pytest keeps of the test."""
    folder = Path(os.environ.get("FIRTH_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def take(watched: Watched, name: str) -> Path:
        path = folder / f"lab-{name}.png"
        watched.page.screenshot(path=path, full_page=True)
        assert path.stat().st_size > 1000
        return path

    return take
