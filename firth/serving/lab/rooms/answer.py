"""Answer: the span of a text that answers a question."""

from __future__ import annotations

from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room, Usable
from firth.tasks.answer import ReaderRun

CONTEXT = (
    "The hotel Meridian stands in Seattle. It was built in 1924 by the architect Anna Berg, and it has 120 rooms. "
    "In 1962 it was sold to a company from Oslo."
)
QUESTION = "Who built the hotel?"


def span(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The most probable answer and its place in the context."""
    run, question, context = request.text("run"), request.text("question", QUESTION), request.text("context", CONTEXT)
    with library.using(run, progress) as model:
        progress("reading", 0, 1)
        found = model.expect(ReaderRun).answer(question, context)
    python = (
        f"import firth\n\nmodel = firth.load({str(library.path(run))!r})\n"
        f"found = model.answer({question!r}, {context!r})\nprint(found.text, found.probability, found.start)\n"
    )
    end = found.start + len(found.text)
    facts = {
        "answer": found.text,
        "probability": found.probability,
        "start": found.start,
        "parts": [context[: found.start], context[found.start : end], context[end:]],
    }
    return ViewResult({}, python, facts)


def usable(library: RunLibrary) -> Usable:
    return Usable(
        library.runs_where(lambda facts: facts.takes_context),
        "There is no run that answers questions about a text. It takes a file of questions, such as SQuAD, and a recipe that "
        'names it and has objective.kind = "answer":',
        "firth train questions.toml --out runs/answer",
    )


ROOM = Room(
    "answer",
    "Answer",
    "Ask a question about a text: the model marks the words that answer it.",
    {"span": span},
    usable,
    facts={"question": QUESTION, "context": CONTEXT},
    notice="The answer is always a part of the text, even if the text does not answer the question; look at its probability.",
    examples=(
        Example("Who?", {"question": "Who built the hotel?"}),
        Example("When?", {"question": "When was the hotel sold?"}),
        Example("Not in the text", {"question": "Who sleeps in the hotel?"}),
    ),
)
