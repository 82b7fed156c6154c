"""Station: tag the tokens of Python source, by the word alone and by its context."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.api import Recipe, compose, load
from firth.experiments.tour.station import Guide
from firth.figures.figure import Table
from firth.figures.page import Section
from firth.tasks.tagging import TaggerRun, Tags
from firth.text.datasets.python_source_tags import NAMES, WORDS, write_parts

KINDS = {"average": "words alone", "lstm": "bidirectional LSTM"}
SHOWN = "def copy ( self ) : self . copy = copy ( copy = copy )"  # one word in five roles
_STEPS = 300


@dataclass(frozen=True)
class TaggingResult:
    name: str
    parameters: int
    accuracy: float
    name_accuracy: float  # over the tokens that are spelled like names
    shown: str


def visit(guide: Guide) -> Section:
    paths = _written(guide.out / "source")
    recipes = {kind: guide.shortened(_recipe(kind, paths), _STEPS) for kind in KINDS}
    guide.train("taggers", {name: (f"tags-{kind}", recipes[kind]) for kind, name in KINDS.items()})
    models = {kind: load(guide.run(f"tags-{kind}"), kind=TaggerRun) for kind in KINDS}
    with guide.watching("taggers") as watcher:
        measured = {kind: model.evaluate(progress=watcher.work, split="test") for kind, model in models.items()}
    return _section([_result(name, models[kind], measured[kind]) for kind, name in KINDS.items()], models["lstm"])


def _written(folder: Path) -> dict[str, Path]:
    paths = {part: folder / f"{part}.conll" for part in WORDS}
    write_parts(paths, WORDS)
    return paths


def _recipe(kind: str, paths: dict[str, Path]) -> Recipe:
    model = {"kind": kind, "width": 64} | ({"spelling": {"width": 16}} if kind == "lstm" else {})
    return compose(
        {
            "data": {"path": str(paths["train"]), "valid_path": str(paths["valid"]), "test_path": str(paths["test"])},
            "tokenizer": {"kind": "word", "min_count": 2},
            "model": {"family": "encoder", "dropout": 0.2, **model},
            "objective": {"kind": "tagging"},
            "training": {"batch": 32, "rate": 0.01, "final_rate_ratio": 0.0},
        }
    )


def _result(name: str, model: TaggerRun, measured: dict[str, Any]) -> TaggingResult:
    tags = [tag for tag in measured["tags"] if tag["label"] in NAMES]
    names = sum(tag["examples"] for tag in tags)
    tagged = _shown(model)
    return TaggingResult(
        name,
        sum(parameter.numel() for parameter in model.network.parameters()),
        measured["accuracy"],
        sum(tag["recall"] * tag["examples"] for tag in tags) / max(1, names),
        " ".join(tag for word, tag in zip(tagged.words, tagged.tags, strict=True) if word == "copy"),
    )


def _shown(model: TaggerRun) -> Tags:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if "copy" is not in the vocabulary, the note about <unk> does not matter here
        (tags,) = model.tag([SHOWN])
    return tags


def _section(results: list[TaggingResult], model: TaggerRun) -> Section:
    steps = model.recipe.training.steps
    rows = [(r.name, f"{r.parameters:,}", f"{r.accuracy:.1%}", f"{r.name_accuracy:.1%}", r.shown) for r in results]
    return Section(
        title="Context decides what a word is: tagging Python",
        lead=f"Each model was trained for {steps:,} steps on the source of Python's own library, where every token has one of "
        f"the tags {', '.join(model.labels)}. Accuracy is on other files: over all tokens, and over those spelled like names. "
        f"The last column shows the tags of the five copies in: {SHOWN}",
        table=Table(("model", "parameters", "accuracy", "on names", "copy, five times"), rows),
        excerpts=((results[-1].name, str(_shown(model))),),
    )
