"""The tour, with models and texts so small that it takes a few seconds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from runs import recipe_table
from shell import Firth, firth

from firth.api import Recipe, Watcher, compose
from firth.experiments import tour
from firth.experiments.tour import Audience, language, take, words
from firth.figures.page import Section
from firth.training import log
from firth.vectors import load as load_vectors

__all__ = ["firth"]

KINDS = ("rnn", "lstm", "gru", "transformer")
LOOKS_LIKE_HTML = "The list <script>alert('x')</script> & <b>more</b>.\n"


def tiny(name: str) -> Recipe:
    table = recipe_table(model=name.removeprefix("docs-char-"))
    return compose(table | {"data": {"text": LOOKS_LIKE_HTML * 40, "valid": 0.1}})


@dataclass(frozen=True)
class Taken:
    out: Path
    report: Path
    sections: list[Section]
    labels: list[str]

    @property
    def html(self) -> str:
        return self.report.read_text(encoding="utf-8")


def _documentation(folder: Path) -> Path:
    """A text in which lists and tuples keep one company, files and paths another."""
    lines = ["A list, like a tuple, has items; the tuple's items stay.", "Open the file: its path is a file's path."] * 60
    (folder / "docs.txt").write_text("\n".join(lines))
    return folder / "docs.txt"


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    out, sections, labels = tmp_path_factory.mktemp("tour") / "out", [], []

    @contextlib.contextmanager
    def watching(label: str) -> Iterator[Watcher]:
        labels.append(label)
        yield Watcher()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "find_recipe", tiny)
        patch.setattr(words, "docs_corpus", lambda progress: _documentation(out.parent))
        report = take(0.001, out, Audience(watching, sections.append))
    return Taken(out, report, sections, labels)


def test_a_section_has_a_row_for_each_generation(taken: Taken) -> None:
    section = taken.sections[-1]
    assert len(tour.STATIONS) == len(taken.sections)
    assert [row[0] for row in section.table.rows] == ["Elman RNN", "LSTM", "GRU", "Transformer"]
    assert all(len(row) == len(section.table.headings) for row in section.table.rows)
    labels = [label for label in taken.labels if label != "timing"]
    assert labels == ["word vectors", "Elman RNN", "LSTM", "GRU", "Transformer"]


def test_the_table_shows_what_the_logs_say(taken: Taken) -> None:
    section = taken.sections[-1]
    for kind, row in zip(KINDS, section.table.rows, strict=True):
        last = log.read(taken.out / "runs" / kind / "log.jsonl")[-1]
        shown = dict(zip(section.table.headings, row, strict=True))
        assert shown["bits/char"] == f"{last['valid']['bits_per_character']:.3f}"
        assert shown["tokens/s"] == f"{last['tokens_per_second']:,.0f}"


def test_the_figure_shows_what_the_logs_say(taken: Taken) -> None:
    (figure,) = taken.sections[-1].figures
    names = dict(zip(KINDS, ("Elman RNN", "LSTM", "GRU", "Transformer"), strict=True))
    rows = [
        (names[kind], str(line["tokens"]), f"{line['loss'] / 0.6931471805599453:.4f}", f"{line['seconds']:.1f}")
        for kind in KINDS
        for line in log.read(taken.out / "runs" / kind / "log.jsonl")
    ]
    assert [tuple(row) for row in figure.table.rows] == rows
    lines = [trace for trace in figure.plot.data if trace.mode == "lines"]
    assert [(trace.name, f"{x}", f"{y:.4f}") for trace in lines for x, y in zip(trace.x, trace.y, strict=True)] == [
        row[:3] for row in rows
    ]


class Addresses(HTMLParser):
    """Every address that a browser would fetch or open, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_the_report_opens_without_a_network(taken: Taken) -> None:
    parser = Addresses()
    parser.feed(taken.html)
    assert parser.found == []
    assert "@import" not in re.sub(r"<script>.*?</script>", "", taken.html, flags=re.DOTALL)
    assert "link" not in parser.tags
    assert "Plotly" in taken.html  # it brings its own script


def test_the_text_of_a_model_is_not_markup(taken: Taken) -> None:
    """The corpus looks like HTML, and so does what the models write; the page shows it as text."""
    without_own_scripts = re.sub(r"<script[^>]*>.*?</script>", "", taken.html, flags=re.DOTALL)
    parser = Addresses()
    parser.feed(without_own_scripts)
    assert "b" not in parser.tags
    assert "<script>alert" not in taken.html
    for _, text in taken.sections[0].excerpts:
        assert text.startswith("The list ")


def test_every_run_of_the_tour_can_be_used_afterwards(taken: Taken, firth: Firth) -> None:
    assert {path.name for path in (taken.out / "runs").iterdir()} == set(KINDS)
    answer = firth("generate", taken.out / "runs" / "transformer", "The list ", "--tokens", 5)
    assert (answer.code, answer.err) == (0, "")


def test_the_command_prints_the_table_and_where_the_report_is(
    firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language, "find_recipe", tiny)
    out = tmp_path / "my tour"
    for _ in range(2):  # a second tour takes the place of the first
        answer = firth("tour", "--minutes", 0.001, "--out", out, "--no-open")
        assert answer.code == 0, answer.err
    for name in ("Elman RNN", "LSTM", "GRU", "Transformer", "bits/char", str(out / "report.html")):
        assert name in answer.out
    assert "\x1b" not in answer.out  # no colours where there is no terminal
    assert (out / "report.html").is_file()


def test_the_words_of_the_text_have_neighbours_and_company(taken: Taken) -> None:
    section = taken.sections[0]
    assert [row[0] for row in section.table.rows] == ["list", "file"], "those of the shown words that the text has"
    vectors = load_vectors(taken.out / "words.firth")
    assert "tuple's" in vectors
    assert "items;" not in vectors
    for word, neighbours, company in section.table.rows:
        assert neighbours.split(", ") == [near for near, _ in vectors.most_similar(word, topn=4)]
        assert company
    (map_,) = section.figures
    assert [row[0] for row in map_.table.rows] == list(vectors.words)
