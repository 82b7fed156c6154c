"""Build: compose a small language model, count it, train it on a text, and watch its curves."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firth.errors import ConfigError, DataError
from firth.experiments.describe import describe_recipe
from firth.experiments.draw import subject_of
from firth.figures.counting import parameters, short
from firth.figures.training import training_curves
from firth.ideas import Ideas
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.score import SCORES
from firth.layers.norm import NORMS
from firth.layers.position import SCHEMES, NoPosition
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS, TokenMixer
from firth.models import TransformerConfig
from firth.progress import Progress
from firth.serving.lab.drawings import WHOLE, drawing_facts
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import LONGEST, ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, choices, ideas, named
from firth.serving.lab.rooms.describe import totals
from firth.serving.lab.rooms.playground import MASK_LABELS
from firth.serving.lab.run_facts import RunFacts
from firth.serving.lab.starters import STARTERS
from firth.serving.lab.trainings import RunTraining
from firth.serving.lab.workshop import StartedTraining
from firth.tasks.ability import ABILITIES

if TYPE_CHECKING:
    from pathlib import Path

    from firth.api import Recipe

TRANSFORMER = "transformer"
USUAL = TransformerConfig(kind="transformer")
MOST_PARAMETERS = 2_000_000
MOST_STEPS = 2_000
MASKS = ("causal", "strictly_causal", "window")
TOKENS = {"char": "characters", "word": "words"}
GRAMMAR, PASTED = "grammar", "pasted"


def sentences(count: int = 600) -> str:
    """Sentences of a small grammar, which a small model learns in seconds: the verb agrees with its subject."""
    draw = random.Random(0)
    nouns, verbs, adjectives = ("cat", "dog", "bird", "child"), ("see", "hear", "like", "follow"), ("small", "old", "red")
    sentences = []
    for _ in range(count):
        subject, other, verb = draw.choice(nouns), draw.choice(nouns), draw.choice(verbs)
        colour = f"{draw.choice(adjectives)} " if draw.random() < 0.5 else ""
        several = draw.random() < 0.5
        plural = "children" if subject == "child" else f"{subject}s"
        sentences.append(f"the {colour}{plural} {verb} a {other} ." if several else f"the {colour}{subject} {verb}s a {other} .")
    return "\n".join(sentences) + "\n"


def count(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The recipe of these settings, and the parameters of its model."""
    recipe = _recipe(request, library)
    progress("counting", 0, 1)
    description = describe_recipe("your model", recipe, progress)
    table, grammar = repr(_table(request, library)), repr(sentences())
    short_table = table.replace(grammar, "sentences()")
    python = (
        "from firth.api import compose\nfrom firth.experiments.describe import describe_recipe\n"
        "from firth.figures.counting import parameters\n"
        f"{'' if short_table == table else 'from firth.serving.lab.rooms.build import sentences' + chr(10)}\n"
        f"recipe = compose({short_table})\ndescribed = describe_recipe('your model', recipe)\n"
        "figure = parameters(described.of.parts)\nfigure.plot\n"
    )
    facts = {
        "parameters": description.parameters,
        "about": f"{short(description.parameters)} parameters",
        "refusal": _refusal(description.parameters),
        "recipe": recipe.toml(),
    }
    headings = {"parameters": "Where the parameters are"}
    return ViewResult({"parameters": parameters(description.of.parts)}, python, facts, totals(description), headings)


def draw(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """A drawing of the model of these settings."""
    recipe, table = _recipe(request, library), _table(request, library)
    facts = drawing_facts(subject_of(recipe, WHOLE), request.text("drawing", WHOLE))
    drawn = {"data": {"text": "any"}, "model": table["model"], "training": {"context": table["training"]["context"]}}
    python = (
        "import firth\nfrom firth.api import compose\n\n"
        f"recipe = compose({drawn!r})\ndrawing = firth.draw(recipe, {facts['kind']!r})\ndrawing\n"
    )
    return ViewResult({}, python, facts)


def train(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Start a training; `state` reports its progress."""
    recipe = _recipe(request, library)
    progress("counting", 0, 1)
    weights = describe_recipe("your model", recipe, progress).parameters
    if refusal := _refusal(weights):
        raise ConfigError(refusal)
    job = library.workshop.start(RunTraining(recipe), request.text("name", most=200))
    return ViewResult({}, _python(job), {"name": job.name})


def make(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Start to train one of the lab's starters, for a room that needs it; `progress` reports how far it is."""
    starter = STARTERS[request.choice("starter", tuple(STARTERS))]
    shop = library.workshop
    training = starter.training(shop.folder)
    job = shop.start(training, shop.free(starter.name, training.suffix))
    return ViewResult({}, _python(job), {"name": job.name})


def stop(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Stop the training, which saves its weights first."""
    library.workshop.stop()
    return state(request, library, progress)


def progress_facts(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The progress of the latest training."""
    job = library.workshop.job
    return ViewResult({}, "" if job is None else _python(job), _facts(job, library))


def state(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The progress of the latest training, with its curves."""
    job = library.workshop.job
    lines = [] if job is None else job.lines
    if job is None or not lines:
        return progress_facts(request, library, progress)
    python = (
        "from pathlib import Path\n\nfrom firth.figures.training import training_curves\nfrom firth.training import log\n\n"
        f"lines = log.read(Path({str(job.training.log_file(job.path))!r}))\n"
        f"figure = training_curves({{{job.name!r}: lines}}, 'loss', {job.training.counts!r})\nfigure.plot\n"
    )
    figure = training_curves({job.name: lines}, "loss", job.training.counts)
    return ViewResult({"curves": figure}, python, _facts(job, library))


def _facts(job: StartedTraining | None, library: RunLibrary) -> dict[str, object]:
    """The facts that the page shows about a training. The run that it made is from then on one of the lab's."""
    if job is None:
        return {"name": None, "running": False}
    running, ready, lines = job.running, job.ready, job.lines  # in this order: one that has ended is ready
    opens = _openings(job, library) if ready else ()
    return {
        "name": job.name,
        "running": running,
        "ready": ready and not running,
        "counts": job.training.counts,
        "step": lines[-1]["step"] if lines else 0,
        "steps": job.training.goal(lines),
        "loss": next((line["loss"] for line in reversed(lines) if "loss" in line), None),
        "seconds": time.monotonic() - job.began,
        "error": job.error(),
        "opens": [{"room": room, "settings": settings} for room, settings in opens],
    }


def _openings(job: StartedTraining, library: RunLibrary) -> list[tuple[str, Mapping[str, str]]]:
    """Rooms that show the new model, and the setting that selects it there."""
    library.add(job.path)
    if (vectors := _known(job, library.vectors)) is not None:
        return [(room, {"vectors": vectors}) for room in ("words", "search")]
    run = _known(job, library.runs)
    return [] if run is None else [(room, {"run": run}) for room in _rooms(library.facts(run))]


def _known(job: StartedTraining, names: Mapping[str, Path]) -> str | None:
    """The name that the other rooms know it by."""
    return next((name for name, path in names.items() if path == job.path), None)


def _rooms(facts: RunFacts) -> list[str]:
    """Rooms that show something about the run, those for its task first."""
    from firth.serving.lab.rooms import ROOMS, rooms  # which list this one

    able = sorted((one for one in ABILITIES if facts.can(one)), key=lambda one: one.inspects)
    own = (one for name, one in rooms().items() if name not in ROOMS.shipped_kinds)
    named = [*(one.room for one in able), *(one.name for one in own if one.ability and facts.can(one.ability))]
    return list(dict.fromkeys(filter(None, named)))


def _python(job: StartedTraining) -> str:
    return job.training.python(job.path)


def _refusal(parameters: int) -> str:
    """Why the lab does not train a model of that size; "" if it does."""
    if parameters <= MOST_PARAMETERS:
        return ""
    return (
        f"The model has {parameters:,} parameters, and the lab trains at most {MOST_PARAMETERS:,}. Make it smaller, or "
        "download the recipe and use `firth train`."
    )


def _recipe(request: ViewRequest, library: RunLibrary) -> Recipe:
    from firth.api import compose

    return compose(_table(request, library))


def _table(request: ViewRequest, library: RunLibrary) -> dict[str, Any]:
    """The settings as a recipe: only what differs from firth's defaults, and what the room bounds."""
    kind = request.choice("kind", (TRANSFORMER, *CELLS.kinds), TRANSFORMER)
    model: dict[str, Any] = {
        "family": "language",
        "kind": kind,
        "width": request.number("width", int, 64, least=1, most=512),
        "depth": request.number("depth", int, 2, least=1, most=12),
    }
    if kind == TRANSFORMER:
        model |= _transformer(request)
    steps = request.number("steps", int, 300, least=1, most=MOST_STEPS)
    return {
        "summary": "a model built in the lab",
        "data": _data(request, library),
        "tokenizer": {"kind": request.choice("tokens", tuple(TOKENS), "char")},
        "model": model,
        "training": {
            "steps": steps,
            "batch": request.number("batch", int, 16, least=1, most=64),
            "context": request.number("context", int, 64, least=2, most=256),
            "rate": request.number("rate", float, 0.003, least=0, most=1),
            "seed": request.number("seed", int, 0, least=0),
            "warmup": min(20, steps // 10),
            "log_every": max(1, steps // 100),
            "evaluate_every": max(1, steps // 10),
        },
    }


def _transformer(request: ViewRequest) -> dict[str, Any]:
    kind = request.choice("mixer", MIXERS.kinds, USUAL.attention.kind)
    attention: dict[str, Any] = {"kind": kind, "heads": request.number("heads", int, 4, least=1, most=16)}
    of_mixer = _of_mixer(MIXERS[kind])
    if "score" in of_mixer:
        attention["score"] = request.choice("score", SCORES.kinds, USUAL.attention.score)
        attention["mask"] = request.choice("mask", MASKS, MASKS[0])
        if attention["mask"] == "window":
            attention["span"] = request.number("span", int, 8, least=1, most=256)
    position = request.choice("position", SCHEMES.kinds, USUAL.position.kind) if "position" in of_mixer else NoPosition.kind
    return {
        "attention": attention,
        "position": {"kind": position},
        "norm": {"kind": request.choice("norm", NORMS.kinds, USUAL.norm.kind)},
        "feedforward": {"activation": request.choice("activation", ACTIVATIONS.kinds, USUAL.feedforward.activation)},
    }


def _of_mixer(mixer: type[TokenMixer]) -> list[str]:
    """The controls that only some mixers have."""
    scores, position = mixer.takes_bias, mixer.takes_bias or mixer.takes_turn
    return [*(["score", "mask"] if scores else []), *(["position"] if position else [])]


def _data(request: ViewRequest, library: RunLibrary) -> dict[str, Any]:
    from firth.text.data.running_text import has_files

    source = request.choice("source", (GRAMMAR, PASTED, *library.corpora), GRAMMAR)
    if source == GRAMMAR:
        return {"text": sentences()}
    if source == PASTED:
        text = request.text("text", "")
        if len(text) < 200:
            raise DataError(f"the text has {len(text)} characters; paste at least 200 (up to {LONGEST:,})")
        return {"text": text}
    return {"name": source} if has_files(source) else {"path": source}


def _controls(kind: str) -> list[str]:
    """The controls that only some kinds have."""
    return ["mixer", "heads", "score", "position", "mask", "norm", "activation"] if kind == TRANSFORMER else []


def _kinds() -> tuple[Choice, ...]:
    return Choice(TRANSFORMER, "Transformer"), *ideas(CELLS)


def _first(usual: str, collection: Ideas[Any]) -> tuple[Choice, ...]:
    """The kinds, the usual one at the top, where the page begins."""
    return tuple(sorted(ideas(collection), key=lambda one: one.value != usual))


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    mixers = _first(USUAL.attention.kind, MIXERS)
    return {
        "kind": tuple(replace(one, facts={"controls": _controls(one.value)}) for one in _kinds()),
        "mixer": tuple(replace(one, facts={**one.facts, "controls": _of_mixer(MIXERS[one.value])}) for one in mixers),
        "norm": _first(USUAL.norm.kind, NORMS),
        "activation": _first(USUAL.feedforward.activation, ACTIVATIONS),
        "score": ideas(SCORES),
        "position": ideas(SCHEMES),
        "mask": tuple(replace(one, facts={"spans": one.value == "window"}) for one in choices(MASKS, MASK_LABELS)),
        "tokens": choices(TOKENS, TOKENS),
        "source": (
            Choice(GRAMMAR, "600 sentences of a small grammar"),
            Choice(PASTED, "a text that you paste", {"controls": ["text"]}),
            *named(library.corpora),
        ),
    }


ROOM = Room(
    "build",
    "Build",
    "Compose a small language model and train it here.",
    {"count": count, "draw": draw, "train": train, "make": make, "stop": stop, "state": state, "progress": progress_facts},
    acts=("train", "make", "stop"),
    choices=offered,
    facts={"most_steps": MOST_STEPS, "longest": LONGEST},
    notice="Compare models of equal size: the number of parameters is shown before you train, the loss while you do.",
    examples=(
        Example("A small Transformer", {"kind": "transformer", "width": "64", "depth": "2", "position": "rotary"}),
        Example("The same without positions", {"kind": "transformer", "width": "64", "depth": "2", "position": "none"}),
        Example("An LSTM", {"kind": "lstm", "width": "96", "depth": "1"}),
    ),
)
