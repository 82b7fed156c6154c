"""Station: three generations of models translate dates to ISO 8601; the attention of one of them is drawn."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from firth.api import Recipe, find_recipe, load
from firth.experiments.tour.station import Guide
from firth.figures.figure import Figure, Table
from firth.figures.lengths import LengthBucket, score_by_length
from firth.figures.page import Section
from firth.models.seq2seq_config import TransformerSeq2SeqConfig
from firth.tasks.translation import TranslatorRun
from firth.text.config import PairsConfig
from firth.text.datasets.dates import LOCALES

KINDS = {"rnnenc": "RNNenc", "rnnsearch": "RNNsearch", "transformer": "Transformer"}
SHOWN = ("samedi 14 novembre 2026", "14.11.26", "2026年11月14日")
_ALIGNED = "rnnsearch"
_STEPS = {"rnnenc": 450, "rnnsearch": 450, "transformer": 1700}
_BATCH_TOKENS = 512  # small batches: so early in training, more steps help more than larger batches


@dataclass(frozen=True)
class TranslationResult:
    name: str
    parameters: int
    steps: int
    sentences: int
    exact: float
    buckets: list[LengthBucket]
    translations: list[str]


def visit(guide: Guide) -> Section:
    recipes = {kind: guide.shortened(_for_a_tour(find_recipe(f"dates-{kind}")), _STEPS[kind]) for kind in KINDS}
    slowest_first = sorted(KINDS.items(), key=lambda kind_name: -_STEPS[kind_name[0]])
    guide.train("translators", {name: (f"dates-{kind}", recipes[kind]) for kind, name in slowest_first})
    models = {kind: load(guide.run(f"dates-{kind}"), kind=TranslatorRun) for kind in KINDS}
    with guide.watching("translators") as watcher:
        measured = {kind: model.evaluate(progress=watcher.work, split="test") for kind, model in models.items()}
    results = [_result(name, models[kind], measured[kind]) for kind, name in KINDS.items()]
    return _section(results, models[_ALIGNED].align(SHOWN[0]).figure(), recipes[_ALIGNED])


def _for_a_tour(recipe: Recipe) -> Recipe:
    """Equal batches for all models, and selection by loss, so that dates are decoded only once, at the end."""
    training = dataclasses.replace(recipe.training, batch_tokens=_BATCH_TOKENS, select="loss")
    model = recipe.model
    if isinstance(model, TransformerSeq2SeqConfig):
        model = dataclasses.replace(model, encoder_depth=1)  # it learns as much in as many steps, and faster
    return dataclasses.replace(recipe, training=training, model=model)


def _result(name: str, model: TranslatorRun, measured: dict[str, Any]) -> TranslationResult:
    return TranslationResult(
        name,
        sum(parameter.numel() for parameter in model.network.parameters()),
        model.recipe.training.steps,
        measured["sentences"],
        measured["exact"],
        [LengthBucket(**bucket) for bucket in measured["buckets"]],
        model.translate(SHOWN),
    )


def _section(results: list[TranslationResult], alignment: Figure, recipe: Recipe) -> Section:
    rows = [(r.name, f"{r.parameters:,}", f"{r.steps:,}", f"{r.exact:.1%}", *r.translations) for r in results]
    assert isinstance(recipe.data, PairsConfig)
    locales = len(recipe.data.locales or LOCALES)
    return Section(
        title="From one vector to attention: dates in many languages",
        lead=f"Each model was trained to translate dates of {locales} locales to ISO 8601. Exact: the share of "
        f"{results[0].sentences:,} dates without a wrong digit, for days that never occur in training in any language. "
        "RNNenc must keep the whole date in one vector; RNNsearch and the Transformer attend to it for each digit. The "
        "Transformer gets more of its faster steps: it must also learn from examples what order means.",
        table=Table(("model", "parameters", "steps", "exact", *SHOWN), rows),
        figures=(score_by_length({r.name: r.buckets for r in results}, "exact", "characters"), alignment),
    )
