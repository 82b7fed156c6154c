"""Inspect: a run on a text, as predictions, hidden states, gradient flow or the vectors of one word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firth.errors import ConfigError
from firth.figures.alignment import visible
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room
from firth.serving.lab.rooms.generate import STATE, state_choices
from firth.serving.lab.starters import GPT
from firth.serving.lab.unknown_text import read
from firth.tasks.ability import EMBED, GENERATE
from firth.tasks.next_token import LanguageModelRun

if TYPE_CHECKING:
    from firth.serving.lab.library import LoadedRun

MOST_SENTENCES = 12  # that a word is compared in


def predictions(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The tokens that the model expected at each position."""
    run = request.text("run")
    top = request.number("top", int, 5, least=1, most=20)
    with library.using(run, progress) as model:
        progress("computing", 0, 1)
        text = read(request, "text", model)
        predictions, before = model.predictions(text, top=top), _before(model)
    lines = (f"predictions = model.predictions({text!r}, top={top})", "figure = predictions.figure()", "figure.plot")
    facts = {
        "tokens": len(predictions.tokens),
        "perplexity": predictions.perplexity,
        "next": predictions.next,
        "before": before,
    }
    return ViewResult({"predictions": predictions.figure()}, library.program(run, *lines), facts)


def states(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The hidden state of a recurrent network after each token, or one of its gates."""
    run, gate = request.text("run"), request.text("gate", "", most=40)
    units = request.number("units", int, 32, least=1, most=256)
    with library.using(run, progress) as model:
        progress("computing", 0, 1)
        text = read(request, "text", model)
        states = model.states(text)
    names = [level.name for level in states.levels]
    level = request.number("level", int, len(names) - 1, least=0, most=len(names) - 1)
    gates = list(states.levels[level].gates())
    gate = gate if gate in gates else STATE  # a gate of the run chosen before
    lines = (f"states = model.states({text!r})", f"figure = states.figure({level}, {gate!r}, {units})", "figure.plot")
    facts = state_choices(names, gates) | {"level": level, "gate": gate}
    return ViewResult({"states": states.figure(level, gate, units)}, library.program(run, *lines), facts)


def flow(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The gradient of the last token's loss at each earlier token, and the same gradient clipped as in training."""
    run = request.text("run")
    with library.using(run, progress) as model:
        progress("computing gradients", 0, 1)
        text = read(request, "text", model)
        flow, clip = model.expect(LanguageModelRun).flow(text), model.recipe.training.clip
        before = _before(model)
    figures = {"flow": flow.figure()}
    lines = [f"flow = model.flow({text!r})", 'figures = {"flow": flow.figure()}']
    if clip:
        figures["clipped"] = flow.clipped(clip).figure()
        lines.append(f'figures["clipped"] = flow.clipped({clip!r}).figure()')
    headings = {
        "flow": "Gradient by distance",
        "clipped": f"Clipped at {clip}, as in training: the curve is lower but just as steep",
    }
    facts = {"gradient": flow.gradient, "clip": clip or None, "tokens": len(flow.tokens) + 1 - len(before), "before": before}
    return ViewResult(figures, library.program(run, *lines), facts, headings=headings)


def senses(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """One word in several sentences: the cosines of its contextual vectors, beside its one static vector."""
    run, word = request.text("run"), request.text("word", most=200).strip()
    sentences = _lines(request.text("sentences"))
    if not word:
        raise ConfigError("the word is empty; give a word that occurs in every sentence")
    if not 2 <= len(sentences) <= MOST_SENTENCES:
        raise ConfigError(f"there are {len(sentences)} sentences; expected 2 to {MOST_SENTENCES}, one per line")
    with library.using(run, progress) as model:
        progress("computing", 0, 1)
        sentences = _lines(read(request, "sentences", model, lines=True))
        occurrences = model.senses(word, sentences)
    call = f"senses = model.senses({word!r}, {sentences!r})"
    python = library.program(run, call, "print(senses.text())", "figure = senses.figure()", "figure.plot")
    return ViewResult({"senses": occurrences.figure()}, python, {"depth": len(occurrences.layers) - 1})


def _before(run: LoadedRun) -> list[str]:
    """What a language model reads before a text, which nobody typed: the newline or the special token between two texts."""
    if not isinstance(run, LanguageModelRun):
        return []
    return [visible(run.tokenizer.token(int(id))) for id in run.start_ids()]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


VIEWS = (
    Choice(
        "predictions",
        "predictions at each token",
        {"controls": ["text", "top"], "about": "The darker a token, the less the model expected it."},
    ),
    Choice(
        "states",
        "hidden states and gates",
        {
            "controls": ["text", "level", "gate", "units"],
            "about": "Each row is a unit. The units that change most from token to token come first.",
        },
    ),
    Choice(
        "flow",
        "gradient flow",
        {
            "controls": ["text"],
            "about": "How much of the last token's loss reaches each earlier token: ‖∂loss/∂h‖ and ‖∂loss/∂e‖ by distance.",
        },
    ),
    Choice(
        "senses",
        "one word in several sentences",
        {
            "controls": ["word", "sentences"],
            "about": "In context, a word has a different vector in each sentence; its embedding (layer 0) is always the same.",
        },
    ),
)


ROOM = Room(
    "inspect",
    "Inspect",
    "What a model computes while it reads your text.",
    {"predictions": predictions, "states": states, "flow": flow, "senses": senses},
    ability=EMBED,
    first=lambda facts: facts.can(GENERATE),
    if_none="There is no run that reads text. Train one on the documentation on your disk:",
    starter=GPT,
    choices=lambda library: {"look": VIEWS},
    facts={"word": "list", "sentences": "the list is empty\nreturns the list of names\nlist the files of a folder"},
    old_names=("reading",),
    notice="See which tokens surprise the model: often the beginning of a word more than its end.",
    examples=(
        Example("Which tokens surprise the model", {"look": "predictions"}),
        Example("One word in several sentences", {"look": "senses"}),
        Example("How far the gradient reaches", {"look": "flow"}),
    ),
)
