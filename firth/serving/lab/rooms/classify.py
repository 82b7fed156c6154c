"""Classify: the probability of each class for a text."""

from __future__ import annotations

from firth.errors import DataError
from firth.figures.ranking import ranking
from firth.inspection.word_effects import MOST_WORDS, WordEffects
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room
from firth.serving.lab.starters import CLASSIFIER
from firth.serving.lab.unknown_text import read
from firth.tasks.ability import CLASSIFY
from firth.tasks.classification import ClassifierRun

TEXT = "a warm and funny film"
_DECIDES = 0.05  # a word that changes the probability by less decides nothing


def classes(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The probability of every class, most probable first, and the effect of each word on that of the most probable one."""
    run = request.text("run")
    if not request.text("text", TEXT).strip():
        raise DataError("the text is empty; write one or more words")
    with library.using(run, progress) as model:
        progress("classifying", 0, 1)
        text = read(request, "text", model, TEXT)
        (found,) = model.expect(CLASSIFY).classify([text])
        words = len(text.split())
        effects = None
        if isinstance(model, ClassifierRun) and 2 <= words <= MOST_WORDS:
            effects = model.word_effects(text, label=found.label)
    rows = sorted(found.probabilities.items(), key=lambda one: -one[1])
    figures = {"classes": ranking(rows, "probability")}
    figures["classes"].plot.update_xaxes(range=[0, 1])
    ranked = "ranking(sorted(predicted.probabilities.items(), key=lambda one: -one[1]), 'probability')"
    lines = [f"(predicted,) = model.classify([{text!r}])", f"figures = {{'classes': {ranked}}}"]
    if effects is not None:
        figures["effects"] = effects.figure()
        lines.append(f"figures['effects'] = model.word_effects({text!r}, label=predicted.label).figure()")
    python = library.program(run, *lines, imports=["from firth.figures.ranking import ranking"])
    facts = {"label": found.label, "probability": found.probability, "why": _why(effects, words)}
    headings = {"effects": f"How much each word raises the probability of {found.label}"}
    return ViewResult(figures, python, facts, headings=headings)


def _why(effects: WordEffects | None, words: int) -> str:
    """The word that decides, in a sentence; or that none does."""
    if effects is None:
        return f"The effects of single words are shown for texts of at most {MOST_WORDS} words." if words > MOST_WORDS else ""
    at = effects.strongest()
    assert at is not None
    before, after = (f"{100 * p:.1f} %" for p in (effects.probability, effects.without[at]))
    if abs(effects.effect[at]) < _DECIDES:
        return f"No single word decides: the probability of {effects.label} stays within {_DECIDES} without any one of them."
    moves = "falls" if effects.effect[at] > 0 else "rises"
    return f"Without “{effects.words[at]}”, the probability of {effects.label} {moves} from {before} to {after}."


ROOM = Room(
    "classify",
    "Classify",
    "The class of a text, the probability of every class, and the words that decide.",
    {"classes": classes},
    ability=CLASSIFY,
    if_none="There is no run that classifies texts. Train one on a dozen short reviews:",
    starter=CLASSIFIER,
    facts={"text": TEXT},
    notice="Some words decide, most do not. See which: the text is classified again without each of its words.",
    examples=(
        Example("Praise", {"text": "a warm and funny film"}),
        Example("Blame", {"text": "a dull and empty film"}),
        Example("A negation", {"text": "not a dull film"}),
    ),
)
