"""Compare: RNN, LSTM, GRU and Transformer side by side: gradients, time, and quality by length and by examples in the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from firth.errors import ConfigError
from firth.evaluation.translation import LengthBucket
from firth.figures.in_context import measure_of, score_by_examples
from firth.figures.lengths import score_by_length
from firth.inspection.gradient_flow import KINDS, Flow, compare_flow, flows_figure
from firth.inspection.timing import doubled, timed
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf

MOST_RUNS = 7  # as many as there are colours
N, D, ROUNDS = 256, 128, 3  # of the timings


def flow(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Gradients against distance in fresh models of equal size, before any training."""
    given: dict[str, Any] = {
        "length": asked.number("length", int, 100, least=2, most=500),
        "size": asked.number("size", int, 40_000, least=1_000, most=1_000_000),
        "gain": asked.number("gain", float, 1.0, least=0, most=100),
        "seed": asked.number("seed", int, 0, least=0),
    }
    found: dict[str, Flow] = {}
    for n, kind in enumerate(KINDS):
        progress(n, len(KINDS), f"the gradient of the {kind}")
        found |= compare_flow([kind], **given)
    settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
    python = (
        "from firth.inspection.gradient_flow import compare_flow, flows_figure\n\n"
        f"figure = flows_figure(compare_flow({settings}))\nfigure.plot\n"
    )
    return Shown({"flow": flows_figure(found)}, python)


def cost(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Time of a layer against the length of a text and its width, on the machine of the lab."""
    longest = asked.number("longest", int, 1024, least=128, most=8192)
    widest = asked.number("widest", int, 512, least=64, most=2048)
    costs = timed(
        doubled(64, longest),
        doubled(32, widest),
        n=N,
        d=D,
        rounds=ROUNDS,
        progress=lambda what, done, of: progress(done, of or 1, what),
    )
    python = (
        "from firth.inspection.timing import doubled, timed\n\n"
        f"costs = timed(doubled(64, {longest}), doubled(32, {widest}), n={N}, d={D}, rounds={ROUNDS})\n"
        "print(costs.text())\nfigure = costs.figure()\nfigure.plot\n"
    )
    return Shown({"cost": costs.figure()}, python)


def lengths(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """BLEU and exact match of translations by the length of the source, on the held-out pairs of each run."""
    names = _names(asked, shelf, "translation")
    beam = asked.number("beam", int, 1, least=1, most=32)
    buckets = {}
    for name, result in _evaluated(names, shelf, progress, beam=beam):
        buckets[name] = [LengthBucket(**bucket) for bucket in result["buckets"]]
    figures = {"bleu": score_by_length(buckets, "bleu"), "exact": score_by_length(buckets, "exact")}
    python = (
        "import firth\nfrom firth.evaluation.translation import LengthBucket\n"
        "from firth.figures.lengths import score_by_length\n\n"
        f"runs = {_paths(names, shelf)!r}\n"
        f"results = {{name: firth.load(path).evaluate(beam={beam}) for name, path in runs.items()}}\n"
        'buckets = {name: [LengthBucket(**one) for one in result["buckets"]] for name, result in results.items()}\n'
        'figures = {"bleu": score_by_length(buckets, "bleu"), "exact": score_by_length(buckets, "exact")}\n'
        'figures["bleu"].plot\n'
    )
    return Shown(figures, python)


def examples(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """What runs that learn in context answer after more and more examples."""
    names = _names(asked, shelf, "in-context")
    if len({repr(shelf.recipe(name).data) for name in names}) > 1:
        raise ConfigError("the runs were trained on different tasks; choose some with the same [data]")
    rows = dict(_evaluated(names, shelf, progress))
    measure = measure_of(next(iter(rows.values())))
    figure = score_by_examples({name: result["by_examples"] for name, result in rows.items()}, measure)
    python = (
        "import firth\nfrom firth.figures.in_context import score_by_examples\n\n"
        f"runs = {_paths(names, shelf)!r}\n"
        'rows = {name: firth.load(path).evaluate()["by_examples"] for name, path in runs.items()}\n'
        f"figure = score_by_examples(rows, {measure!r})\nfigure.plot\n"
    )
    return Shown({"examples": figure}, python)


def _names(asked: Asked, shelf: Shelf, objective: str) -> tuple[str, ...]:
    names = asked.names("runs")
    if not 1 <= len(names) <= MOST_RUNS:
        raise ConfigError(f"{len(names)} runs are chosen; expected 1 to {MOST_RUNS}")
    for name in names:
        if not (kind := shelf.recipe(name).objective.kind).startswith(objective):
            raise ConfigError(f"{name} is a run of {kind}; expected one of {objective}")
    return names


def _evaluated(names: Sequence[str], shelf: Shelf, progress: Progress, **given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run's name and what `evaluate` says of it."""
    for n, name in enumerate(names):
        tell = partial(_tell, progress, n, len(names), name)
        with shelf.using(name, progress) as model:
            yield name, model.evaluate(None, tell, **given)


def _tell(progress: Progress, before: int, runs: int, name: str, what: str, done: int, total: int) -> None:
    progress(before + done / max(total, 1), runs, f"{name}: {what}")


def _paths(names: Sequence[str], shelf: Shelf) -> dict[str, str]:
    return {name: str(shelf.path(name)) for name in names}


def usable(shelf: Shelf) -> Usable:
    return Usable(shelf.suited(lambda recipe: recipe.objective.kind.startswith(("translation", "in-context"))))


ROOM = Room(
    "compare",
    "Compare",
    "RNN, LSTM, GRU and Transformer: how far gradients reach, what n and d cost, quality by length, and learning from examples.",
    {"flow": flow, "cost": cost, "lengths": lengths, "examples": examples},
    usable,
)
