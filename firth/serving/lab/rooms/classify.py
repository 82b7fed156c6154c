"""Classify: the probability of each class for a text."""

from __future__ import annotations

from firth.errors import DataError
from firth.figures.ranking import ranking
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room
from firth.serving.lab.starters import CLASSIFIER
from firth.serving.lab.unknown_text import read
from firth.tasks.ability import CLASSIFY

TEXT = "a warm and funny film"


def classes(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The probability of every class, most probable first."""
    run = request.text("run")
    if not request.text("text", TEXT).strip():
        raise DataError("the text is empty; write one or more words")
    with library.using(run, progress) as model:
        progress("classifying", 0, 1)
        text = read(request, "text", model, TEXT)
        (classification,) = model.expect(CLASSIFY).classify([text])
    rows = sorted(classification.probabilities.items(), key=lambda one: -one[1])
    figure = ranking(rows, "probability")
    figure.plot.update_xaxes(range=[0, 1])
    drawn = "figure = ranking(sorted(predicted.probabilities.items(), key=lambda one: -one[1]), 'probability')"
    lines = (f"(predicted,) = model.classify([{text!r}])", drawn, "figure.plot")
    python = library.program(run, *lines, imports=["from firth.figures.ranking import ranking"])
    return ViewResult({"classes": figure}, python, {"label": classification.label, "probability": classification.probability})


ROOM = Room(
    "classify",
    "Classify",
    "The class of a text, and the probability of every class.",
    {"classes": classes},
    ability=CLASSIFY,
    if_none="There is no run that classifies texts. Train one on a dozen short reviews:",
    starter=CLASSIFIER,
    facts={"text": TEXT},
    notice="Change one word and see how far the bars move: some words decide, most do not.",
    examples=(
        Example("Praise", {"text": "a warm and funny film"}),
        Example("Blame", {"text": "a dull and empty film"}),
        Example("A negation", {"text": "not a dull film"}),
    ),
)
