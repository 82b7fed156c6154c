"""Station: four generations of language models with equally many parameters, trained on the same text."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from firth.api import Recipe, find_recipe, load, train_recipe
from firth.experiments.tour.pace import cleared, shortened, steps_that_fit
from firth.experiments.tour.station import Guide, Station
from firth.figures.curves import Curve, loss_curves
from firth.figures.figure import Table
from firth.figures.page import Section
from firth.tasks.next_token import LanguageModelRun
from firth.training import log
from firth.training.folder import RunFolder

KINDS = {"rnn": "Elman RNN", "lstm": "LSTM", "gru": "GRU", "transformer": "Transformer"}
PROMPT = "The list "


@dataclass(frozen=True)
class Result:
    name: str
    parameters: int
    bits: float
    tokens_per_second: float
    sample: str
    curve: Curve


def visit(guide: Guide) -> Section:
    began = time.perf_counter()
    recipes = {kind: find_recipe(f"docs-char-{kind}") for kind in KINDS}
    steps = steps_that_fit(list(recipes.values()), guide, began)
    results = []
    for kind, recipe in recipes.items():
        with guide.watching(KINDS[kind]) as watcher:
            folder = train_recipe(shortened(recipe, steps), cleared(guide.out / "runs" / kind), watcher=watcher)
        model = load(folder.path, kind=LanguageModelRun)
        results.append(_result(KINDS[kind], model, folder))
    return _section(results, model.recipe, steps)


def _result(name: str, model: LanguageModelRun, folder: RunFolder) -> Result:
    lines = log.read(folder.log)
    curve = Curve(
        [line["tokens"] for line in lines], [line["loss"] / math.log(2) for line in lines], [line["seconds"] for line in lines]
    )
    size = sum(parameter.numel() for parameter in model.network.parameters())
    sample = model.generate(PROMPT, tokens=200, temperature=0.7, seed=0)
    return Result(name, size, lines[-1]["valid"]["bits_per_character"], lines[-1]["tokens_per_second"], PROMPT + sample, curve)


def _section(results: list[Result], recipe: Recipe, steps: int) -> Section:
    sha256 = recipe.data.sha256 or ""
    tokens = steps * recipe.training.batch * recipe.training.context
    rows = [
        (r.name, f"{r.parameters:,}", f"{r.bits:.3f}", f"{r.tokens_per_second:,.0f}", _one_line(r.sample, 56)) for r in results
    ]
    figure = loss_curves({r.name: r.curve for r in results}, {r.name: r.bits for r in results})
    return Section(
        title="Four generations of language models",
        lead=f"Each model was trained on the same {tokens:,} characters of documentation found on this disk "
        f"({steps:,} steps; sha256 of the text {sha256[:12]}…). Bits per character on held-out text: lower is better.",
        table=Table(("model", "parameters", "bits/char", "tokens/s", "a sample"), rows),
        figures=(figure,),
        excerpts=tuple((f"{r.name}, temperature 0.7", r.sample) for r in results),
    )


def _one_line(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


STATION = Station(share=1.0, visit=visit)
