"""Tag: the tag of each word, and how sure the model is of it."""

from __future__ import annotations

from firth.errors import DataError
from firth.figures.figure import Table
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Room
from firth.serving.lab.starters import TAGGER
from firth.serving.lab.unknown_text import read
from firth.tasks.ability import ATTENTION, STATES, TAG

MOST_SENTENCES = 50


def tags(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The most probable tag of each word; one sentence per line."""
    run, text = request.text("run"), request.text("text", "")
    sentences = [line for line in text.splitlines() if line.strip()]
    if not 1 <= len(sentences) <= MOST_SENTENCES:
        raise DataError(f"there are {len(sentences)} sentences; write 1 to {MOST_SENTENCES}, one per line")
    with library.using(run, progress) as model:
        progress("tagging", 0, 1)
        sentences = [line for line in read(request, "text", model, lines=True).splitlines() if line.strip()]
        tagged = model.expect(TAG).tag(sentences)
    shown = "    print(list(zip(one.words, one.tags, one.probabilities)))"
    python = library.program(run, f"for one in model.tag({sentences!r}):", shown)
    words = [list(zip(one.words, one.tags, one.probabilities, strict=True)) for one in tagged]
    facts = [[{"word": word, "tag": tag, "probability": p} for word, tag, p in one] for one in words]
    rows = [(f"{n}", word, tag, f"{p:.4f}") for n, one in enumerate(words, start=1) for word, tag, p in one]
    return ViewResult({}, python, {"sentences": facts}, Table(("sentence", "word", "tag", "probability"), rows))


ROOM = Room(
    "tag",
    "Tag",
    "The tag of each word: parts of speech, names and others.",
    {"tags": tags},
    ability=TAG,
    first=lambda facts: facts.can(STATES) or facts.can(ATTENTION),  # they read the context
    if_none="There is no run that tags words. Train one on the source code of Python's own library:",
    starter=TAGGER,
    notice="The same word may get another tag in another sentence; a fainter frame means that the model is less sure.",
    texts_into="text",
)
