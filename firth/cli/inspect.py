"""firth inspect: look inside a model while it processes a text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.figures.figure import Figure
    from firth.tasks.run import Run

ViewName = Literal["attention", "lines", "entropy", "rollout", "predictions", "states", "flow"]

_ATTENTION = ("attention", "lines", "entropy", "rollout")
_VIEWS_OF_OPTION: dict[str, tuple[str, ...]] = {
    "layer": ("attention", "lines", "rollout", "states"),
    "head": ("attention", "lines"),
    "part": _ATTENTION,
    "words": _ATTENTION,
    "gate": ("states",),
    "top": ("predictions",),
    "target": (*_ATTENTION, "predictions", "states"),
    "context": (*_ATTENTION, "states"),
}


@dataclass(frozen=True)
class TerminalView:
    """A view as text for the terminal, as figures for --save and as facts for --json."""

    text: str
    draw: Callable[[], Sequence[Figure]]  # called only for --save
    facts: Mapping[str, Any]
    lead: str


@dataclass(frozen=True)
class Options:
    """The text to inspect, and the options of the views."""

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
        """Width of the terminal in characters."""
        return shutil.get_terminal_size().columns


@verb()
def inspect(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    text: Annotated[str, typer.Argument(help="Input text; for question answering, the question; for captions, an image file.")],
    what: Annotated[
        str | None,
        typer.Option(
            help="View: attention, lines, entropy, rollout, predictions, states or flow.  "
            "[default: attention if the model has it, otherwise states]"
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer, counted from 1.  [default: the last; for --what attention, an overview of all]")
    ] = None,
    head: Annotated[int | None, typer.Option(help="Attention head, counted from 1.  [default: mean of all heads]")] = None,
    part: Annotated[
        str | None, typer.Option(help="Attention of a translation Transformer: cross, encoder or decoder.  [default: cross]")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Merge the attention of subword tokens into words.")] = False,
    gate: Annotated[
        str | None,
        typer.Option(
            help="Gate or state to show (with --what states): h; for an LSTM also c, input, forget, candidate, output; "
            "for a GRU also reset, update, candidate."
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Candidates to show at each position (with --what predictions).  [default: 5]")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target text of a translation model, or caption.  [default: the model's own]")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Passage that contains the answer to a question.")] = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Inspect attention, predictions, states and gradient flow.

    To compare one word in several sentences, use `firth senses`; for a translation, `firth align`; for word vectors,
    `firth vectors map`."""
    from firth.api import load

    if what is not None and what not in get_args(ViewName):
        raise ConfigError(f'unknown view "{what}"; choose one of: {", ".join(get_args(ViewName))}')
    model = load(run)
    kind = what or _default_view(model)
    options = Options(text, target, context, part, _index("layer", layer), _index("head", head), words, gate, top)
    for option, views in _VIEWS_OF_OPTION.items():
        given = getattr(options, option)
        if given is not None and given is not False and kind not in views:  # 0 is a valid head
            raise ConfigError(f"--{option} does not apply to {kind}. Remove it, or set --what to one of: {', '.join(views)}")
    view = _view(model, kind, options)
    figures = view.draw() if save is not None else ()
    if save is not None:
        shown = section(kind.capitalize(), view.lead, figures, [("Text", text)])
        saved = save_figures(save, f"Inside {run.name}", [shown], "firth inspect")
    if as_json:
        print_json({"what": kind, **view.facts})
        return
    print(view.text)
    if save is not None:
        print(f"\n{saved}: {len(figures)} {'figure' if len(figures) == 1 else 'figures'}")


def _index(name: str, given: int | None) -> int | None:
    """The index in Python, which counts from 0; on the command line and in figures, layers and heads count from 1."""
    if given is not None and given < 1:
        raise ConfigError(f"--{name} is {given}; expected 1 or more")
    return None if given is None else given - 1


def _expect_index(name: str, given: int | None, known: Sequence[int]) -> None:
    if given is not None and given not in known:
        raise ConfigError(f"--{name} is {given + 1}; this model has {', '.join(str(n + 1) for n in known) or 'none'}")


def _default_view(model: Run[Any]) -> ViewName:
    """Attention if the model has any, otherwise states."""
    from firth.layers.self_attention import Attend

    return "attention" if any(isinstance(module, Attend) for module in model.network.modules()) else "states"


def _view(model: Run[Any], what: str, options: Options) -> TerminalView:
    match what:
        case "attention" | "lines" | "entropy" | "rollout":
            return _attention(model, what, options)
        case "predictions":
            return _predictions(model, options)
        case "states":
            return _states(model, options)
        case _:
            return _flow(model, options)


def _attention(model: Run[Any], what: str, options: Options) -> TerminalView:
    from firth.figures.alignment import alignment_text

    attention = model.attention(options.text, target=options.target, context=options.context, part=options.part)
    attention = attention.merged() if options.words else attention
    layer, head = options.layer, options.head
    _expect_index("layer", layer, attention.layers)
    _expect_index("head", head, range(attention.heads))
    facts: dict[str, Any] = {
        "part": attention.part,
        "parts": attention.parts,
        "queries": attention.queries,
        "keys": attention.keys,
    }
    lead = "Rows are queries, columns are keys; each row sums to 1."
    if what == "rollout":
        last = -1 if layer is None else layer
        figure, R_TT = attention.rollout_figure(last), attention.rollout()[last]
        text = alignment_text(attention.keys, attention.queries, R_TT.tolist(), options.width)
        lead += " Rollout is the product of ½(A + I) over the layers."
        return TerminalView(text, lambda: [figure], facts | {"rollout": R_TT.tolist()}, lead)
    if what == "entropy" or (what == "attention" and layer is None and head is None):
        facts |= {
            "layers": [one + 1 for one in attention.layers],
            "heads": attention.heads,
            "entropy": attention.entropy().tolist(),
        }
        every = [attention.entropy_figure] if what == "entropy" else [attention.overview, attention.entropy_figure]
        return TerminalView(attention.text(options.width), lambda: [draw() for draw in every], facts, lead)
    chosen = attention.layers[-1] if layer is None else layer
    weights = attention.weights(chosen, head).mean(0)
    draw = attention.lines if what == "lines" else attention.figure
    facts |= {"layer": chosen + 1, "head": None if head is None else head + 1, "weights": weights.tolist()}
    return TerminalView(attention.text(options.width, chosen, head), lambda: [draw(chosen, head)], facts, lead)


def _predictions(model: Run[Any], options: Options) -> TerminalView:
    predictions = model.predictions(options.text, target=options.target, top=options.top or 5)
    tokens = zip(
        predictions.tokens,
        predictions.probability,
        predictions.rank,
        predictions.surprisal,
        predictions.entropy,
        predictions.top,
        strict=True,
    )
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
    lead = "Darker tokens were less expected: surprisal is −log₂ p."
    return TerminalView(
        predictions.text(options.width), lambda: [predictions.figure()], {"tokens": facts, "next": predictions.next}, lead
    )


def _states(model: Run[Any], options: Options) -> TerminalView:
    states = model.states(options.text, target=options.target, context=options.context)
    _expect_index("layer", options.layer, range(len(states.levels)))
    number = -1 if options.layer is None else options.layer
    level, gate = states.levels[number], options.gate or "h"
    text = states.text(options.width, number, gate=gate)
    drawn = list(level.gates()) if options.gate is None else [options.gate]
    facts = {
        "level": level.name,
        "levels": [one.name for one in states.levels],
        "tokens": level.tokens,
        "gate": gate,
        "values": level.gate(gate).tolist(),
        "most": level.most(32),
    }
    lead = "Each row is a unit; units that change most from token to token come first."
    return TerminalView(text, lambda: [states.figure(number, gate) for gate in drawn], facts, lead)


def _flow(model: Run[Any], options: Options) -> TerminalView:
    from firth.tasks.next_token import LanguageModelRun

    flow = model.expect(LanguageModelRun).flow(options.text)
    facts = {
        "tokens": flow.tokens,
        "state": flow.state.tolist(),
        "embedding": flow.embedding.tolist(),
        "gradient": flow.gradient,
        "clip": model.recipe.training.clip,
    }
    drawn, lead = [flow], "The gradient of the last token's loss at each earlier token."
    if model.recipe.training.clip:
        drawn.append(flow.clipped(model.recipe.training.clip))
        lead += " The second figure shows it clipped as in training, which lowers the curve but does not change its slope."
    return TerminalView(flow.text(options.width), lambda: [one.figure() for one in drawn], facts, lead)
