"""Reading: what goes on in a model while it reads a text, one look at a time."""

from __future__ import annotations

from firth.errors import ConfigError
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf, reads_text
from firth.tasks.next_token import LanguageModelRun

MOST_SENTENCES = 12  # in which a word is compared


def predictions(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """What was expected in the place of each token."""
    run, text = asked.text("run"), asked.text("text")
    top = asked.number("top", int, 5, least=1, most=20)
    with shelf.using(run, progress) as model:
        progress(0, 1, "reading")
        found = model.predictions(text, top=top)
    python = _opened(shelf, run) + f"found = model.predictions({text!r}, top={top})\nfigure = found.figure()\nfigure.plot\n"
    facts = {"tokens": len(found.tokens), "perplexity": found.perplexity, "next": found.next}
    return Shown({"predictions": found.figure()}, python, facts)


def states(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """What the units of a recurrent network hold after each token, or one of the gates that made it so."""
    run, text, gate = asked.text("run"), asked.text("text"), asked.text("gate", "h", most=40)
    units = asked.number("units", int, 32, least=1, most=256)
    with shelf.using(run, progress) as model:
        progress(0, 1, "reading")
        found = model.states(text)
    names = [level.name for level in found.levels]
    level = asked.number("level", int, len(names) - 1, least=0, most=len(names) - 1)
    gates = list(found.levels[level].gates())
    gate = gate if gate in gates else "h"  # that of another run
    lines = f"states = model.states({text!r})\nfigure = states.figure({level}, {gate!r}, {units})\nfigure.plot\n"
    python = _opened(shelf, run) + lines
    facts = {"levels": names, "level": level, "gates": gates, "gate": gate}
    return Shown({"states": found.figure(level, gate, units)}, python, facts)


def flow(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """How much of the last token's loss reaches each token before it; and the same, clipped as in training."""
    run, text = asked.text("run"), asked.text("text")
    with shelf.using(run, progress) as model:
        progress(0, 1, "following the gradient")
        found, clip = model.expect(LanguageModelRun).flow(text), model.recipe.training.clip
    figures = {"flow": found.figure()}
    lines = [f"flow = model.flow({text!r})", 'figures = {"flow": flow.figure()}']
    if clip:
        figures["clipped"] = found.clipped(clip).figure()
        lines.append(f'figures["clipped"] = flow.clipped({clip!r}).figure()')
    python = _opened(shelf, run) + "\n".join([*lines, 'figures["flow"].plot', ""])
    return Shown(figures, python, {"gradient": found.gradient, "clip": clip or None})


def senses(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """One word in several sentences: the cosines of its vectors, beside that of its one static vector."""
    run, word = asked.text("run"), asked.text("word", most=200).strip()
    sentences = [line.strip() for line in asked.text("sentences").splitlines() if line.strip()]
    if not word:
        raise ConfigError("the word is empty; give one that stands in each of the sentences")
    if not 2 <= len(sentences) <= MOST_SENTENCES:
        raise ConfigError(f"there are {len(sentences)} sentences; expected 2 to {MOST_SENTENCES}, each on a line of its own")
    with shelf.using(run, progress) as model:
        progress(0, 1, "reading")
        found = model.senses(word, sentences)
    python = _opened(shelf, run) + (
        f"found = model.senses({word!r}, {sentences!r})\nprint(found.text())\nfigure = found.figure()\nfigure.plot\n"
    )
    return Shown({"senses": found.figure()}, python, {"depth": len(found.layers) - 1})


def _opened(shelf: Shelf, run: str) -> str:
    return f"import firth\n\nmodel = firth.load({str(shelf.path(run))!r})\n"


def usable(shelf: Shelf) -> Usable:
    """Language models first: of them every look but one has something to show."""
    language = shelf.suited(lambda recipe: recipe.objective.kind == "next-token")
    others = tuple(name for name in shelf.suited(reads_text) if name not in language)
    return Usable(language + others, "No run here reads text: train one, as `firth train docs-char-gru --out runs/gru`.")


ROOM = Room(
    "reading",
    "Reading",
    "What a model expects at each token, what its units hold, how far a gradient reaches, and one word in several sentences.",
    {"predictions": predictions, "states": states, "flow": flow, "senses": senses},
    usable,
)
