"""Answer: the span of a text that answers a question."""

from __future__ import annotations

from firth.progress import Progress
from firth.serving.lab.examples import ASKED_STORIES
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Room
from firth.serving.lab.starters import QUESTIONS
from firth.serving.lab.unknown_text import read
from firth.tasks.ability import ANSWER

_, QUESTION, CONTEXT = ASKED_STORIES[0]


def span(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The most probable answer and its place in the context."""
    run = request.text("run")
    with library.using(run, progress) as model:
        progress("reading", 0, 1)
        question, context = read(request, "question", model, QUESTION), read(request, "context", model, CONTEXT)
        answer = model.expect(ANSWER).answer(question, context)
    call = f"answer = model.answer({question!r}, {context!r})"
    python = library.program(run, call, "print(answer.text, answer.probability, answer.start)")
    end = answer.start + len(answer.text)
    facts = {
        "answer": answer.text,
        "probability": answer.probability,
        "start": answer.start,
        "parts": [context[: answer.start], context[answer.start : end], context[end:]],
    }
    return ViewResult({}, python, facts)


ROOM = Room(
    "answer",
    "Question answering",
    "The words of a text that answer your question.",
    {"span": span},
    ability=ANSWER,
    if_none="There is no run that answers questions about a text. Train one on short generated stories; for other texts, it "
    "takes a file of questions, such as SQuAD:",
    starter=QUESTIONS,
    facts={"question": QUESTION, "context": CONTEXT},  # until there is a run, which has texts of its own
    notice="The answer is always a part of the text, even if the text has none; a high probability is no proof.",
    texts_into="question",
)
