"""firth inspect"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.figures.figure import Figure
    from firth.tasks.run import Run

What = Literal["attention", "lines", "entropy", "rollout", "predictions", "states", "flow"]

_LOOKING = ("attention", "lines", "entropy", "rollout")
_FOR: dict[str, tuple[str, ...]] = {  # which looks an option is for
    "layer": ("attention", "lines", "rollout", "states"),
    "head": ("attention", "lines"),
    "part": _LOOKING,
    "words": _LOOKING,
    "gate": ("states",),
    "top": ("predictions",),
    "target": (*_LOOKING, "predictions", "states"),
    "context": (*_LOOKING, "states"),
}


@dataclass(frozen=True)
class Look:
    """What is to be printed, drawn and told to machines."""

    text: str
    draw: Callable[[], Sequence[Figure]]  # only where a page is wanted
    facts: Mapping[str, Any]
    lead: str


@dataclass(frozen=True)
class Asked:
    text: str
    target: str | None
    context: str | None
    part: str | None
    layer: int | None
    head: int | None
    words: bool
    gate: str | None
    top: int | None

    @property
    def width(self) -> int:
        """Of the terminal."""
        return shutil.get_terminal_size().columns


@verb()
def inspect(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    text: Annotated[str, typer.Argument(help="What the model reads; of a run that answers questions, the question.")],
    what: Annotated[
        str | None,
        typer.Option(help="attention (of all heads, or of --layer), lines, entropy, rollout, predictions, states or flow."),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Of attention, or the level of a recurrent state; the first is 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Of attention; the mean of the layer's heads where not given.")] = None,
    part: Annotated[str | None, typer.Option(help="Of a Transformer that translates: cross, encoder or decoder.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Attention between words, not between pieces of words.")] = False,
    gate: Annotated[
        str | None, typer.Option(help="Of states: h alone; c, input, forget, candidate, output; reset, update, candidate.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Of predictions: how many tokens are told; 5.")] = None,
    target: Annotated[str | None, typer.Option(help="What a translator writes; its own translation where not given.")] = None,
    context: Annotated[str | None, typer.Option(help="The text in which the answer to a question stands.")] = None,
    save: Annotated[Path | None, typer.Option(help="An HTML page to write; it opens without a network.")] = None,
    as_json: Json = False,
) -> None:
    """Look inside a model while it reads a text: who looks at whom, what it expects next, what its units hold, how far a gradient
    reaches. One word in several sentences: `firth senses`; a translation: `firth align`; word vectors: `firth vectors map`."""
    from firth.api import load
    from firth.errors import ConfigError, did_you_mean

    if what is not None and what not in get_args(What):
        raise ConfigError(f"--what {what} is no look; expected one of its kinds.{did_you_mean(what, get_args(What))}")
    model = load(run)
    kind = what or _usual(model)
    asked = Asked(text, target, context, part, layer, head, words, gate, top)
    for option, looks in _FOR.items():
        given = getattr(asked, option)
        if given is not None and given is not False and kind not in looks:  # head 0 is one
            raise ConfigError(f"--{option} is for {', '.join(looks)}, and this is {kind}; leave it out, or choose with --what")
    look = _look(model, kind, asked)
    figures = look.draw() if save is not None else ()
    if save is not None:
        _save(save, run, kind, text, look, figures)
    if as_json:
        print_json({"what": kind, **look.facts})
        return
    print(look.text)
    if save is not None:
        print(f"\n{save}: {len(figures)} {'figure' if len(figures) == 1 else 'figures'}")


def _usual(model: Run[Any]) -> What:
    """Attention where there is some, otherwise states."""
    from firth.layers.self_attention import Attend

    return "attention" if any(isinstance(module, Attend) for module in model.network.modules()) else "states"


def _look(model: Run[Any], what: str, asked: Asked) -> Look:
    match what:
        case "attention" | "lines" | "entropy" | "rollout":
            return _attention(model, what, asked)
        case "predictions":
            return _predictions(model, asked)
        case "states":
            return _states(model, asked)
        case _:
            return _flow(model, asked)


def _attention(model: Run[Any], what: str, asked: Asked) -> Look:
    from firth.figures.alignment import alignment_text

    found = model.attention(asked.text, target=asked.target, context=asked.context, part=asked.part)
    seen = found.merged() if asked.words else found
    layer, head = asked.layer, asked.head
    facts: dict[str, Any] = {"part": seen.part, "parts": seen.parts, "queries": seen.queries, "keys": seen.keys}
    lead = "A row is who looks, a column what is looked at; a row sums to 1."
    if what == "rollout":
        last = -1 if layer is None else layer
        figure, R_TT = seen.rollout_figure(last), seen.rollout()[last]
        text = alignment_text(seen.keys, seen.queries, R_TT.tolist(), asked.width)
        return Look(text, lambda: [figure], facts | {"rollout": R_TT.tolist()}, f"{lead} ½(A + I) of each layer, multiplied.")
    if what == "entropy" or (what == "attention" and layer is None and head is None):
        facts |= {"layers": seen.layers, "heads": seen.heads, "entropy": seen.entropy().tolist()}
        every = [seen.entropy_figure] if what == "entropy" else [seen.overview, seen.entropy_figure]
        return Look(seen.text(asked.width), lambda: [draw() for draw in every], facts, lead)
    chosen = seen.layers[-1] if layer is None else layer
    weights = seen.weights(chosen, head).mean(0)
    draw = seen.lines if what == "lines" else seen.figure
    facts |= {"layer": chosen, "head": head, "weights": weights.tolist()}
    return Look(seen.text(asked.width, chosen, head), lambda: [draw(chosen, head)], facts, lead)


def _predictions(model: Run[Any], asked: Asked) -> Look:
    found = model.predictions(asked.text, target=asked.target, top=asked.top or 5)
    tokens = zip(found.tokens, found.probability, found.rank, found.surprisal, found.entropy, found.top, strict=True)
    facts = [
        {
            "token": token,
            "probability": float(p),
            "rank": int(rank),
            "surprisal": float(bits),
            "entropy": float(spread),
            "top": likely,
        }
        for token, p, rank, bits, spread, likely in tokens
    ]
    lead = "The darker a token, the less it was expected: surprisal is −log₂ p."
    return Look(found.text(asked.width), lambda: [found.figure()], {"tokens": facts, "next": found.next}, lead)


def _states(model: Run[Any], asked: Asked) -> Look:
    found = model.states(asked.text, target=asked.target, context=asked.context)
    number = -1 if asked.layer is None else asked.layer
    text = found.text(asked.width, number)
    level = found.levels[number]
    drawn = list(level.gates()) if asked.gate is None else [asked.gate]
    facts = {
        "level": level.name,
        "levels": [one.name for one in found.levels],
        "tokens": level.tokens,
        "gate": asked.gate or "h",
        "values": level.gate(asked.gate or "h").tolist(),
        "most": level.most(32),
    }
    lead = "A row is a unit, those first that move most from token to token."
    return Look(text, lambda: [found.figure(number, gate) for gate in drawn], facts, lead)


def _flow(model: Run[Any], asked: Asked) -> Look:
    from firth.tasks.next_token import LanguageModelRun

    found = model.expect(LanguageModelRun).flow(asked.text)
    facts = {
        "tokens": found.tokens,
        "state": found.state.tolist(),
        "embedding": found.embedding.tolist(),
        "gradient": found.gradient,
        "clip": model.recipe.training.clip,
    }
    drawn, lead = [found], "How much of the last token's loss reaches each token before it."
    if model.recipe.training.clip:
        drawn.append(found.clipped(model.recipe.training.clip))
        lead += " Then the same, clipped as in training: lower where it was too high, and no less steep."
    return Look(found.text(asked.width), lambda: [one.figure() for one in drawn], facts, lead)


def _save(path: Path, run: Path, what: str, text: str, look: Look, figures: Sequence[Figure]) -> None:
    from firth.figures.figure import Table
    from firth.figures.page import Section, page
    from firth.files import write_text

    section = Section(what.capitalize(), look.lead, Table((), []), figures, [("The text", text)])
    write_text(path, page(f"Inside {run.name}", [section], "Drawn by firth inspect."))
