"""Compare: RNN, LSTM, GRU and Transformer by gradients and time, translators by length, in-context learners by examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from firth.errors import ConfigError
from firth.figures.figure import COLOURS
from firth.figures.in_context import measure_of, score_by_examples
from firth.figures.lengths import LengthBucket, score_by_length
from firth.inspection.cost import Costs, joined, layers
from firth.inspection.gradient_flow import Flow, compare_flow, flows_figure, model_kinds
from firth.inspection.timing import measured
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, named, report_share
from firth.serving.lab.streaming import show
from firth.tasks.ability import LEARN_IN_CONTEXT, TRANSLATE, Ability

MOST_RUNS = len(COLOURS)
SECONDS, ROUNDS = 0.1, 3  # the longest call, and the repetitions of the timings


def flow(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Gradient against distance in untrained models of equal size."""
    given: dict[str, Any] = {
        "length": request.number("length", int, 100, least=2, most=500),
        "size": request.number("size", int, 40_000, least=1_000, most=1_000_000),
        "gain": request.number("gain", float, 1.0, least=0, most=100),
        "seed": request.number("seed", int, 0, least=0),
    }
    flows: dict[str, Flow] = {}
    settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
    python = (
        "from firth.inspection.gradient_flow import compare_flow, flows_figure\n\n"
        f"figure = flows_figure(compare_flow({settings}))\nfigure.plot\n"
    )
    for n, kind in enumerate(kinds := model_kinds()):
        if flows:
            show(progress, ViewResult({"flow": flows_figure(flows)}, python))
        progress(f"gradient of the {kind}", n, len(kinds))
        key = ("flow", kind, *given.values())
        flows |= library.computed.once(key, partial(compare_flow, [kind], **given), progress)
    return ViewResult({"flow": flows_figure(flows)}, python)


def cost(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The time that one layer takes against the length and the width of its input, on this machine."""
    longest = request.number("longest", int, 8192, least=128, most=8192)
    widest = request.number("widest", int, 2048, least=64, most=2048)
    given: dict[str, Any] = {"longest": longest, "widest": widest, "seconds": SECONDS, "rounds": ROUNDS}
    costs: list[Costs] = []
    python = (
        "from firth.inspection.timing import measured\n\n"
        f"costs = measured(longest={longest}, widest={widest}, seconds={SECONDS}, rounds={ROUNDS})\n"
        "print(costs.text())\nfigure = costs.figure()\nfigure.plot\n"
    )
    for n, layer in enumerate(layers()):
        if costs:
            show(progress, ViewResult({"cost": joined(costs).figure()}, python))
        within = partial(report_share, progress, n, len(layers()), layer)
        key = ("cost", layer, *given.values())
        costs.append(library.computed.once(key, partial(measured, (layer,), **given, progress=within), progress))
    return ViewResult({"cost": joined(costs).figure()}, python)


def lengths(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """BLEU and exact match by the length of the source, on the held-out pairs of each run."""
    names = _chosen(request, library, TRANSLATE)
    beam = request.number("beam", int, 1, least=1, most=32)
    python = (
        "import firth\nfrom firth.figures.lengths import LengthBucket, score_by_length\n\n"
        f"runs = {_paths(names, library)!r}\n"
        f"results = {{name: firth.load(path).evaluate(beam={beam}) for name, path in runs.items()}}\n"
        'buckets = {name: [LengthBucket(**one) for one in result["buckets"]] for name, result in results.items()}\n'
        'figures = {"bleu": score_by_length(buckets, "bleu"), "exact": score_by_length(buckets, "exact")}\n'
    )
    buckets: dict[str, list[LengthBucket]] = {}

    def drawn() -> ViewResult:
        figures = {"bleu": score_by_length(buckets, "bleu"), "exact": score_by_length(buckets, "exact")}
        return ViewResult(figures, python, headings={"bleu": "BLEU", "exact": "Exact match"})

    for name, found in _evaluated(names, library, progress, beam=beam):
        buckets[name] = [LengthBucket(**bucket) for bucket in found["buckets"]]
        if len(buckets) < len(names):
            show(progress, drawn())
    return drawn()


def examples(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The accuracy or error of in-context learners by the number of examples in the prompt."""
    names = _chosen(request, library, LEARN_IN_CONTEXT)
    if len({repr(library.recipe(name).data) for name in names}) > 1:
        raise ConfigError("the runs were trained on different tasks; choose runs with the same [data]")
    rows = dict(_evaluated(names, library, progress))
    measure = measure_of(next(iter(rows.values())))
    figure = score_by_examples({name: result["by_examples"] for name, result in rows.items()}, measure)
    python = (
        "import firth\nfrom firth.figures.in_context import score_by_examples\n\n"
        f"runs = {_paths(names, library)!r}\n"
        'rows = {name: firth.load(path).evaluate()["by_examples"] for name, path in runs.items()}\n'
        f"figure = score_by_examples(rows, {measure!r})\nfigure.plot\n"
    )
    return ViewResult({"examples": figure}, python)


def _chosen(request: ViewRequest, library: RunLibrary, ability: Ability) -> tuple[str, ...]:
    names = request.names("runs")
    if not 1 <= len(names) <= MOST_RUNS:
        raise ConfigError(f"{len(names)} runs are selected; select 1 to {MOST_RUNS}")
    for name in names:
        library.path(name)
        if not library.facts(name).can(ability):
            raise ConfigError(f"{name}: {library.recipe(name).task.refusal(ability)}")
    return names


def _evaluated(
    names: Sequence[str], library: RunLibrary, progress: Progress, **settings: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run's name with the result of its `evaluate`, which is computed once until the run changes."""

    def evaluated(name: str, within: Progress) -> dict[str, Any]:
        with library.using(name, progress) as run:
            found: dict[str, Any] = run.evaluate(None, within, **settings)
        return found

    for n, name in enumerate(names):
        within = partial(report_share, progress, n, len(names), name)
        key = ("evaluate", library.path(name), *settings.items())
        yield name, library.computed.once(key, partial(evaluated, name, within), progress, library.stamp(name))


def _paths(names: Sequence[str], library: RunLibrary) -> dict[str, str]:
    return {name: str(library.path(name)) for name in names}


VIEWS = (
    Choice(
        "flow",
        "gradient against distance",
        {
            "controls": ["length", "size", "gain", "seed"],
            "about": "Untrained models of equal size. A gain above 1 multiplies the recurrent weights U, "
            "and the gradient of an RNN may then explode.",
        },
    ),
    Choice(
        "cost",
        "time against length n and width d",
        {
            "controls": ["longest", "widest"],
            "about": "The time of one layer on one text, on this machine: O(n·d²) in n sequential steps for a recurrent layer, "
            "O(n²·d) in a single step for attention. Sizes grow until the exponent of a layer has settled; the legend leaves out "
            "those that cannot be seen.",
        },
    ),
    Choice(
        "lengths",
        "translation quality by length",
        {
            "controls": ["translators", "beam", "start"],
            "runs": "translators",
            "about": "Each run translates its held-out pairs. This may take minutes.",
            "if_none": "There is no run that translates. Train one: `firth train dates-rnnsearch --out runs/dates`.",
        },
    ),
    Choice(
        "examples",
        "learning in context",
        {
            "controls": ["learners", "start"],
            "runs": "learners",
            "about": "Each run answers prompts with more and more examples of a task. Every prompt has a new task.",
            "if_none": "There is no run that learns in context. Train one: `firth train icl-swap --out runs/icl`.",
        },
    ),
)


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    return {
        "look": VIEWS,
        "translators": named(library.runs_that_can(TRANSLATE)),
        "learners": named(library.runs_that_can(LEARN_IN_CONTEXT)),
    }


ROOM = Room(
    "compare",
    "Compare",
    "RNN, LSTM, GRU and Transformer side by side.",
    {"flow": flow, "cost": cost, "lengths": lengths, "examples": examples},
    choices=offered,
    facts={"most_runs": MOST_RUNS},
    notice="The gradient of an RNN fades within a few tokens; attention reaches every token in one step.",
    examples=(
        Example("Vanishing gradients", {"look": "flow", "gain": "1"}),
        Example("Exploding gradients", {"look": "flow", "gain": "5"}),
        Example("Time against length", {"look": "cost"}),
    ),
)
