"""Station: four generations of language models with equally many parameters, trained on the same text."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from firth.api import Recipe, find_recipe, load
from firth.experiments.tour.station import Guide
from firth.figures.curves import Curve, loss_curves
from firth.figures.figure import Table
from firth.figures.page import Section
from firth.tasks.next_token import LanguageModelRun
from firth.training import log
from firth.training.folder import RunFolder

KINDS = {"rnn": "Elman RNN", "lstm": "LSTM", "gru": "GRU", "transformer": "Transformer"}
PROMPT = "The list "
_STEPS = 500
_BATCH = 16  # half of the recipes' own: so early in training, more steps help more than larger batches


@dataclass(frozen=True)
class LanguageResult:
    name: str
    parameters: int
    bits: float
    tokens_per_second: float
    sample: str
    curve: Curve


def visit(guide: Guide) -> Section:
    recipes = {kind: guide.shortened(_for_a_tour(find_recipe(f"docs-char-{kind}")), _STEPS) for kind in KINDS}
    guide.train("language models", {name: (kind, recipes[kind]) for kind, name in KINDS.items()})
    models = {kind: load(guide.run(kind), kind=LanguageModelRun) for kind in KINDS}
    results = [_result(name, models[kind], RunFolder(guide.run(kind))) for kind, name in KINDS.items()]
    return _section(results, models["rnn"].recipe)


def _for_a_tour(recipe: Recipe) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch=_BATCH))


def _result(name: str, model: LanguageModelRun, folder: RunFolder) -> LanguageResult:
    lines = log.read(folder.log)
    curve = Curve(
        [line["tokens"] for line in lines], [line["loss"] / math.log(2) for line in lines], [line["seconds"] for line in lines]
    )
    size = sum(parameter.numel() for parameter in model.network.parameters())
    sample = model.generate(PROMPT, tokens=200, temperature=0.7, seed=0)
    return LanguageResult(
        name, size, lines[-1]["valid"]["bits_per_character"], lines[-1]["tokens_per_second"], PROMPT + sample, curve
    )


def _section(results: list[LanguageResult], recipe: Recipe) -> Section:
    steps, sha256 = recipe.training.steps, recipe.data.sha256 or ""
    tokens = steps * recipe.training.batch * recipe.training.context
    rows = [(r.name, f"{r.parameters:,}", f"{r.bits:.3f}", f"{r.tokens_per_second:,.0f}") for r in results]
    figure = loss_curves({r.name: r.curve for r in results}, {r.name: r.bits for r in results})
    return Section(
        title="Four generations of language models",
        lead=f"Each model was trained on the same {tokens:,} characters of documentation found on this disk "
        f"({steps:,} steps; sha256 of the text {sha256[:12]}…). Bits per character on held-out text: lower is better. "
        + _finding(results),
        table=Table(("model", "parameters", "bits/char", "tokens/s"), rows),
        figures=(figure,),
        excerpts=tuple((f"{r.name}, temperature 0.7", r.sample) for r in results),
    )


def _finding(results: list[LanguageResult]) -> str:
    best, *_, worst = sorted(results, key=lambda result: result.bits)
    return f"After so little text, the {best.name} predicts best and the {worst.name} worst; all four go on improving."
