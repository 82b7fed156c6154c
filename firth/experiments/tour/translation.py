"""Station: three generations of models translate dates to ISO 8601; the attention of one of them is drawn."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from firth.api import Recipe, find_recipe, load, train_recipe
from firth.evaluation.translation import LengthBucket
from firth.experiments.tour.pace import cleared, shortened, steps_that_fit
from firth.experiments.tour.station import Guide, Station
from firth.figures.figure import Figure, Table
from firth.figures.lengths import score_by_length
from firth.figures.page import Section
from firth.tasks.translation import TranslatorRun
from firth.text.config import PairsConfig
from firth.text.datasets.dates import LOCALES

KINDS = {"rnnenc": "RNNenc", "rnnsearch": "RNNsearch", "transformer": "Transformer"}
SHOWN = ("samedi 14 novembre 2026", "14.11.26", "2026年11月14日")
_ALIGNED = "rnnsearch"
_BATCH_TOKENS = 1024  # small batches: in little time, more steps help more than larger batches
_TIMED = 12  # steps; their times differ, because some batches hold few long sources and others many short ones
_ASIDE = 60  # reading the dates again and translating the held-out ones take about as long as this many steps


@dataclass(frozen=True)
class Result:
    name: str
    parameters: int
    sentences: int
    exact: float
    buckets: list[LengthBucket]
    translations: list[str]


def visit(guide: Guide) -> Section:
    began = time.perf_counter()
    recipes = {kind: _for_a_tour(find_recipe(f"dates-{kind}")) for kind in KINDS}
    steps = steps_that_fit(list(recipes.values()), guide, began, timed=_TIMED, aside=_ASIDE)
    results, alignments = [], []
    for kind, recipe in recipes.items():
        with guide.watching(KINDS[kind]) as watcher:
            folder = train_recipe(shortened(recipe, steps), cleared(guide.out / "runs" / f"dates-{kind}"), watcher=watcher)
            model = load(folder.path, kind=TranslatorRun)
            results.append(_result(KINDS[kind], model, model.evaluate(progress=watcher.work, split="test")))
        if kind == _ALIGNED:
            alignments.append(model.align(SHOWN[0]).figure())
    return _section(results, alignments, recipe, steps)


def _for_a_tour(recipe: Recipe) -> Recipe:
    """Equal batches for all models, and selection by loss, so that dates are decoded only once, at the end."""
    training = dataclasses.replace(recipe.training, batch_tokens=_BATCH_TOKENS, select="loss")
    return dataclasses.replace(recipe, training=training)


def _result(name: str, model: TranslatorRun, measured: dict[str, Any]) -> Result:
    return Result(
        name,
        sum(parameter.numel() for parameter in model.network.parameters()),
        measured["sentences"],
        measured["exact"],
        [LengthBucket(**bucket) for bucket in measured["buckets"]],
        model.translate(SHOWN),
    )


def _section(results: list[Result], alignments: list[Figure], recipe: Recipe, steps: int) -> Section:
    rows = [(r.name, f"{r.parameters:,}", f"{r.exact:.1%}", *r.translations) for r in results]
    assert isinstance(recipe.data, PairsConfig)
    locales = len(recipe.data.locales or LOCALES)
    return Section(
        title="From one vector to attention: dates in many languages",
        lead=f"Each model was trained for {steps:,} steps to translate dates of {locales} locales to ISO 8601. Exact: the share "
        f"of {results[0].sentences:,} dates without a wrong digit, for days that never occur in training in any language. "
        "RNNenc must keep the whole date in one vector; RNNsearch and the Transformer attend to it for each digit.",
        table=Table(("model", "parameters", "exact", *SHOWN), rows),
        figures=(score_by_length({r.name: r.buckets for r in results}, "exact", "characters"), *alignments),
    )


STATION = Station(share=0.75, visit=visit)
