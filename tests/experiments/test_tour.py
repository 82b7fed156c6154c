"""The tour, with models and texts so small that it takes a few seconds."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from runs import recipe_table
from shell import Firth, firth

from firth.api import Recipe, Watcher, compose, find_recipe, load
from firth.experiments import tour
from firth.experiments.tour import Audience, language, station, tags, take, translation, words
from firth.experiments.tour.station import Guide
from firth.figures.page import Section
from firth.text.data_set import Part
from firth.text.datasets.dates import dates
from firth.training import log
from firth.vectors import load as load_vectors

__all__ = ["firth"]

KINDS = ("rnn", "lstm", "gru", "transformer")
TRANSLATORS = ("dates-rnnenc", "dates-rnnsearch", "dates-transformer")
TAGGERS = ("tags-average", "tags-lstm")
LOOKS_LIKE_HTML = "The list <script>alert('x')</script> & <b>more</b>.\n"


def tiny(name: str) -> Recipe:
    table = recipe_table(model=name.removeprefix("docs-char-"))
    return compose(table | {"data": {"text": LOOKS_LIKE_HTML * 40, "valid": 0.1}})


def tiny_dates(folder: Path) -> Callable[[str], Recipe]:
    """A translator learns at once that every day is the 12th, and is right about one in two of those that are tested."""
    days_of_month: dict[Part, tuple[str, str]] = {"train": ("12", "12"), "valid": ("12", "12"), "test": ("12", "21")}
    for part, numbers in days_of_month.items():
        days = enumerate(dates(["fr", "de", "ja"], 400 if part == "train" else 40, part))
        lines = [f"{written}\t{numbers[n % 2]}" for n, (written, _) in days]
        (folder / f"{part}.tsv").write_text("\n".join(["source\ttarget", *lines]), encoding="utf-8")
    keys: dict[str, Part] = {"path": "train", "valid_path": "valid", "test_path": "test"}
    paths = [f"data.{key}={folder / part}.tsv" for key, part in keys.items()]

    def find(name: str) -> Recipe:
        inner = "model.attention.heads=2" if name == "dates-transformer" else "model.embedding=8"
        return find_recipe(name, [*paths, "model.width=16", inner, "training.rate=0.03"])

    return find


def make_tiny(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(language, "find_recipe", tiny)
    patch.setattr(translation, "find_recipe", tiny_dates(folder))
    patch.setattr(tags, "WORDS", {"train": 2_000, "valid": 200, "test": 500})
    patch.setattr(station, "cores", lambda: 1)  # without the seconds that further processes take to start


@dataclass(frozen=True)
class Taken:
    out: Path
    report: Path
    sections: list[Section]
    labels: list[str]

    @property
    def words(self) -> Section:
        return self.sections[0]

    @property
    def language(self) -> Section:
        return self.sections[1]

    @property
    def dates(self) -> Section:
        return self.sections[2]

    @property
    def tags(self) -> Section:
        return self.sections[3]

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
        make_tiny(patch, out.parent)
        patch.setattr(words, "docs_corpus", lambda progress: _documentation(out.parent))
        report = take(out, Audience(watching, sections.append), effort=0.001)
    return Taken(out, report, sections, labels)


def test_a_section_has_a_row_for_each_generation(taken: Taken) -> None:
    section = taken.language
    assert len(tour.STATIONS) == len(taken.sections)
    assert [row[0] for row in section.table.rows] == ["Elman RNN", "LSTM", "GRU", "Transformer"]
    assert all(len(row) == len(section.table.headings) for row in section.table.rows)
    assert taken.labels == ["word vectors", "language models", *["translators"] * 2, *["taggers"] * 2]


def test_the_table_shows_what_the_logs_say(taken: Taken) -> None:
    section = taken.language
    for kind, row in zip(KINDS, section.table.rows, strict=True):
        last = log.read(taken.out / "runs" / kind / "log.jsonl")[-1]
        shown = dict(zip(section.table.headings, row, strict=True))
        assert shown["bits/char"] == f"{last['valid']['bits_per_character']:.3f}"
        assert shown["tokens/s"] == f"{last['tokens_per_second']:,.0f}"


def test_the_figure_shows_what_the_logs_say(taken: Taken) -> None:
    (figure,) = taken.language.figures
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
    for _, text in taken.language.excerpts:
        assert text.startswith("The list ")


def test_every_run_of_the_tour_can_be_used_afterwards(taken: Taken, firth: Firth) -> None:
    assert {path.name for path in (taken.out / "runs").iterdir()} == {*KINDS, *TRANSLATORS, *TAGGERS}
    answer = firth("generate", taken.out / "runs" / "transformer", "The list ", "--tokens", 5)
    assert (answer.code, answer.err) == (0, "")
    answer = firth("align", taken.out / "runs" / "dates-rnnsearch", "14. November 2026")
    assert (answer.code, answer.err) == (0, "")
    answer = firth("tag", taken.out / "runs" / "tags-lstm", "x = list ( y )")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.long
def test_the_command_prints_the_table_and_where_the_report_is(
    firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch, tmp_path)
    monkeypatch.setattr(words, "docs_corpus", lambda progress: _documentation(tmp_path))
    out = tmp_path / "my tour"
    for _ in range(2):  # a second tour takes the place of the first
        answer = firth("tour", "--effort", 0.001, "--out", out, "--no-open")
        assert answer.code == 0, answer.err
    for name in ("Elman RNN", "LSTM", "GRU", "Transformer", "bits/char", "RNNsearch", str(out / "report.html")):
        assert name in answer.out
    assert "\x1b" not in answer.out  # no colours where there is no terminal
    assert (out / "report.html").is_file()


def test_the_words_of_the_text_have_neighbours_and_company(taken: Taken) -> None:
    section = taken.words
    assert [row[0] for row in section.table.rows] == ["list", "file"], "those of the shown words that the text has"
    vectors = load_vectors(taken.out / "words.firth")
    assert "tuple's" in vectors
    assert "items;" not in vectors
    for word, neighbors, company in section.table.rows:
        assert neighbors.split(", ") == [near for near, _ in vectors.most_similar(word, topn=4)]
        assert company
    (map_,) = section.figures
    assert [row[0] for row in map_.table.rows] == list(vectors.words)


def test_the_dates_are_measured_on_held_out_days_and_written_by_the_runs_themselves(taken: Taken) -> None:
    section = taken.dates
    assert [row[0] for row in section.table.rows] == ["RNNenc", "RNNsearch", "Transformer"]
    for name, row in zip(TRANSLATORS, section.table.rows, strict=True):
        model = load(taken.out / "runs" / name)
        shown = dict(zip(section.table.headings, row, strict=True))
        assert shown["parameters"] == f"{sum(p.numel() for p in model.network.parameters()):,}"
        assert (shown["exact"], model.evaluate(split="valid")["exact"]) == ("50.0%", 1.0)
        assert [shown[text] for text in translation.SHOWN] == model.translate(translation.SHOWN)


def test_the_dates_are_drawn_by_length_and_one_is_aligned(taken: Taken) -> None:
    by_length, aligned = taken.dates.figures
    for name, row in zip(TRANSLATORS, taken.dates.table.rows, strict=True):
        model = load(taken.out / "runs" / name)
        buckets: Any = model.evaluate(split="test")["buckets"]
        drawn = [number for model_name, *number in by_length.table.rows if model_name == row[0]]
        assert drawn == [[f"{b['shortest']}–{b['longest']}", f"{b['sentences']}", f"{100 * b['exact']:.2f}"] for b in buckets]
    model = load(taken.out / "runs" / "dates-rnnsearch")
    assert aligned.table.rows == model.align(translation.SHOWN[0]).figure().table.rows


def test_the_tags_are_measured_on_other_files_and_said_by_the_runs_themselves(taken: Taken) -> None:
    section = taken.tags
    assert [row[0] for row in section.table.rows] == ["words alone", "bidirectional LSTM"]
    for name, row in zip(TAGGERS, section.table.rows, strict=True):
        model = load(taken.out / "runs" / name)
        shown = dict(zip(section.table.headings, row, strict=True))
        measured: Any = model.evaluate(split="test")
        assert shown["accuracy"] == f"{measured['accuracy']:.1%}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few words do not have "copy"
            (said,) = model.tag([tags.SHOWN])
        copies = [tag for word, tag in zip(said.words, said.tags, strict=True) if word == "copy"]
        assert shown["copy, five times"] == " ".join(copies)
        assert len(copies) == 5
        names = [tag for tag in measured["tags"] if tag["label"] not in ("operator", "number", "string")]
        right = sum(round(tag["recall"] * tag["examples"]) for tag in names)
        assert shown["on names"] == f"{right / sum(tag['examples'] for tag in names):.1%}"
    words_alone = section.table.rows[0][-1].split()
    assert len(set(words_alone)) == 1, "a word alone is always the same"
    parts = [(taken.out / "source" / f"{part}.conll").read_text(encoding="utf-8") for part in ("train", "valid", "test")]
    assert len(set(parts)) == 3


def test_a_tour_takes_the_same_steps_on_every_machine(taken: Taken, tmp_path: Path) -> None:
    guide = Guide(1.0, tmp_path, lambda label: contextlib.nullcontext(Watcher()))
    recipe = guide.shortened(find_recipe("dates-transformer"), 1600)
    assert (recipe.training.steps, recipe.training.warmup, recipe.training.evaluate_every) == (1600, 50, 0)
    assert Guide(0.25, guide.out, guide.watching).steps(1600) == 400
    for name in (*KINDS, *TRANSLATORS, *TAGGERS):
        assert load(taken.out / "runs" / name).recipe.training.steps == 20, "a few, however little effort"
