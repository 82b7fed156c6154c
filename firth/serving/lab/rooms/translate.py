"""Translate: the translations that beam search finds, the search as a tree, and the alignment of one of them with its source."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.beam_tree import beam_table
from firth.figures.figure import Table
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room, named
from firth.serving.lab.starters import DATES
from firth.serving.lab.token_count import count_source_tokens, count_tokens
from firth.serving.lab.unknown_text import read, read_target
from firth.tasks.ability import ATTENTION, TRANSLATE

if TYPE_CHECKING:
    from firth.serving.lab.library import LoadedRun

MOST_TOKENS = 256  # in a source or a target; beyond that, the cells of an alignment are too small to distinguish
MOST_BEAM = 32


def translations(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The translations that beam search found, best first."""
    run, given = request.text("run"), _settings(request)
    with library.using(run, progress) as model:
        text = _text(request, model)
        _refuse_long(model, text)
        progress("translating", 0, 1)
        (candidates,) = model.expect(TRANSLATE).translations([text], model.decoding(given))
    call = f"(translations,) = model.translations([{text!r}], model.decoding({given!r}))"
    python = library.program(run, call, "for one in translations:", "    print(one.score, one.log_probability, one.text)")
    rows = [
        (f"{n}", one.text, f"{one.score:.4f}", f"{one.log_probability:.4f}", "yes" if one.finished else "no, cut off")
        for n, one in enumerate(candidates, start=1)
    ]
    facts = [
        {"text": one.text, "score": one.score, "log_probability": one.log_probability, "finished": one.finished}
        for one in candidates
    ]
    return ViewResult({}, python, {"translations": facts}, Table(("rank", "translation", "score", "log p", "finished"), rows))


def beam_tree(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The search that found them, as a tree."""
    run, given = request.text("run"), _settings(request, narrowest=2)
    with library.using(run, progress) as model:
        text = _text(request, model)
        _refuse_long(model, text)
        progress("searching", 0, 1)
        tree = model.expect(TRANSLATE).translator.beam_tree(text, model.decoding(given))
    call = f"tree = model.beam_tree({text!r}, beam={given['beam']!r}, penalty={given['penalty']!r})"
    python = library.program(run, call, "print(tree.text())", "figure = tree.figure()", "figure.plot")
    facts = {"nodes": [asdict(node) for node in tree.nodes], "results": [asdict(one) for one in tree.results]}
    return ViewResult({}, python, facts, beam_table(tree.nodes, tree.results))


def alignment(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The alignment of `target` with `text`, from one of the run's attention maps: a layer, a head or the mean."""
    run, name = request.text("run"), request.text("map", "", most=60)
    if not request.text("target", "").strip():
        raise DataError("the translation is empty; there is nothing to align")
    with library.using(run, progress) as model:
        text, target = _text(request, model), read_target(request, "target", model)
        _refuse_long(model, text, target)
        progress("aligning", 0, 1)
        alignment = model.expect(TRANSLATE).align(text, target)
    name = name or next(iter(alignment.weights))
    if name not in alignment.weights:
        raise ConfigError(f'this run has no alignment "{name}".{did_you_mean(name, alignment.weights)}')
    lines = (
        f"aligned = model.align({text!r}, {target!r})",
        f"figure = replace(aligned, weights={{{name!r}: aligned.weights[{name!r}]}}).figure()",
        "figure.plot",
    )
    python = library.program(run, *lines, imports=["from dataclasses import replace"])
    figure = replace(alignment, weights={name: alignment.weights[name]}).figure()
    return ViewResult({"alignment": figure}, python, {"maps": [one.json() for one in named(alignment.weights)], "map": name})


def _settings(request: ViewRequest, narrowest: int = 1) -> dict[str, int | float | None]:
    return {
        "beam": request.number("beam", int, 5, least=narrowest, most=MOST_BEAM),
        "penalty": request.number("penalty", float, 0.6, least=0, most=10),
    }


def _text(request: ViewRequest, run: LoadedRun) -> str:
    if not request.text("text", "").strip():
        raise DataError("the text is empty; write a sentence to translate")
    return read(request, "text", run, lines=True)


def _refuse_long(run: LoadedRun, text: str, target: str = "") -> None:
    for what, tokens in (("text", count_source_tokens(run, text)), ("translation", count_tokens(run, target))):
        if tokens > MOST_TOKENS:
            raise DataError(f"the {what} has {tokens:,} tokens; this room takes at most {MOST_TOKENS}. Shorten it.")


ROOM = Room(
    "translate",
    "Translate",
    "Translate a sentence: the best translations, the source words behind each word, and the search as a tree.",
    {"translations": translations, "alignment": alignment, "beam_tree": beam_tree},
    ability=TRANSLATE,
    first=lambda facts: facts.can(ATTENTION),
    if_none="There is no run that translates. Train one that turns French, German and English dates into ISO 8601:",
    starter=DATES,
    facts={"most_beam": MOST_BEAM},
    texts_into="text",
    notice="The alignment is not always a diagonal: where the languages order their words differently, it crosses.",
    examples=(
        Example("Greedy: a beam of 1", {"beam": "1"}),
        Example("A beam of 12", {"beam": "12"}),
        Example("No length penalty: shorter wins", {"penalty": "0"}),
    ),
)
