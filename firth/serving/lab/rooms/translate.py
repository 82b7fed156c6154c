"""Translate: what a beam finds, and which source words each word was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.figure import Table
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.tasks.run import Run
from firth.tasks.translation import TranslatorRun

MOST_TOKENS = 256  # of a source or a target: an alignment of more has cells that nobody can tell apart
MOST_BEAM = 32


def translations(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """What the beam found, best first."""
    run, text = asked.text("run"), _text(asked)
    given: dict[str, int | float | None] = {
        "beam": asked.number("beam", int, 5, least=1, most=MOST_BEAM),
        "penalty": asked.number("penalty", float, 0.6, least=0, most=10),
    }
    with shelf.using(run, progress) as model:
        _refuse_long(model, text)
        progress(0, 1, "translating")
        (found,) = model.expect(TranslatorRun).translations([text], model.decoding(given))
    python = (
        f"import firth\n\nmodel = firth.load({str(shelf.path(run))!r})\n"
        f"(found,) = model.translations([{text!r}], model.decoding({given!r}))\n"
        "for one in found:\n    print(one.score, one.log_probability, one.text)\n"
    )
    rows = [
        (f"{n}", one.text, f"{one.score:.4f}", f"{one.log_probability:.4f}", "yes" if one.finished else "cut off")
        for n, one in enumerate(found, start=1)
    ]
    facts = [
        {"text": one.text, "score": one.score, "log_probability": one.log_probability, "finished": one.finished} for one in found
    ]
    return Shown({}, python, {"found": facts}, Table(("rank", "translation", "score", "log p", "finished"), rows))


def alignment(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Which words of `text` each word of `target` was made from: one of the maps there are, by layer and head."""
    run, text, target, name = asked.text("run"), _text(asked), asked.text("target", ""), asked.text("map", "", most=60)
    if not target.strip():
        raise DataError("the translation is empty: there is no word whose source could be shown")
    with shelf.using(run, progress) as model:
        _refuse_long(model, text, target)
        progress(0, 1, "aligning")
        found = model.expect(TranslatorRun).align(text, target)
    name = name or next(iter(found.weights))
    if name not in found.weights:
        raise ConfigError(f'there is no alignment "{name}" of this run.{did_you_mean(name, found.weights)}')
    python = (
        "from dataclasses import replace\n\nimport firth\n\n"
        f"model = firth.load({str(shelf.path(run))!r})\n"
        f"aligned = model.align({text!r}, {target!r})\n"
        f"figure = replace(aligned, weights={{{name!r}: aligned.weights[{name!r}]}}).figure()\n"
        "figure.plot\n"
    )
    figure = replace(found, weights={name: found.weights[name]}).figure()
    return Shown({"alignment": figure}, python, {"maps": list(found.weights), "map": name})


def _text(asked: Asked) -> str:
    text = asked.text("text", "")
    if not text.strip():
        raise DataError("the text is empty; give a sentence to translate")
    return text


def _refuse_long(model: Run[Any], text: str, target: str = "") -> None:
    for what, tokens in (
        ("text", len(model.source_tokenizer.encode(text))),
        ("translation", len(model.tokenizer.encode(target))),
    ):
        if tokens > MOST_TOKENS:
            raise DataError(f"the {what} has {tokens:,} tokens; this room translates at most {MOST_TOKENS} at a time; shorten it")


def usable(shelf: Shelf) -> Usable:
    names = shelf.suited(lambda recipe: recipe.task.reads == "sentence pairs")
    return Usable(
        names, "No run here translates: train a model of sentence pairs, as `firth train dates-rnnsearch --out runs/dates`."
    )


ROOM = Room(
    "translate",
    "Translate",
    "A sentence, the translations that a beam finds with their scores, and which source words each word was made from.",
    {"translations": translations, "alignment": alignment},
    usable,
)
