"""Generate: a text token by token, with the probabilities of what may come next, and what an RNN has in mind."""

from __future__ import annotations

from typing import Any

from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import RecurrentLM
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.tasks.abilities.stepwise_generation import Next, next_token, write
from firth.tasks.run import Run

MOST_TOKENS = 500  # at a time


def following(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """What may come after the prompt and the tokens written since; `drawn` is what a step would take."""
    run, prompt, written, top = (
        asked.text("run"),
        asked.text("prompt", ""),
        _written(asked),
        asked.number("top", int, 12, least=1, most=50),
    )
    with shelf.using(run, progress) as model:
        progress(0, 1, "reading")
        found = next_token(model, prompt, written, _config(asked, model), top)
        recurrent = isinstance(model.network, RecurrentLM)
    call = f"next_token(model, {prompt!r}, {written!r}, {_settings(asked)}, top={top})"
    python = (
        f"import firth\nfrom firth.tasks.abilities.stepwise_generation import next_token\n\n"
        f"model = firth.load({str(shelf.path(run))!r})\n"
        f"found = {call}\nprint(found.text)\nfigure = found.figure()\nfigure.plot\n"
    )
    return Shown({"next": found.figure()}, python, _facts(found) | {"recurrent": recurrent})


def writing(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The ids of `more` tokens, as far as the text goes on."""
    run, prompt, written = asked.text("run"), asked.text("prompt", ""), _written(asked)
    more = asked.number("more", int, 20, least=1, most=MOST_TOKENS)
    ids: list[int] = []
    with shelf.using(run, progress) as model:
        for id in write(model, prompt, written, _config(asked, model, tokens=more)):
            ids.append(id)
            progress(len(ids), more, f"{len(ids)} of {more} tokens")
    python = (
        f"import firth\nfrom firth.tasks.abilities.stepwise_generation import write\n\n"
        f"model = firth.load({str(shelf.path(run))!r})\n"
        f"ids = list(write(model, {prompt!r}, {written!r}, {_settings(asked, tokens=more)}))\n"
    )
    return Shown({}, python, {"ids": ids})


def state(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The hidden state of a recurrent model, or its gates, over the text so far."""
    run, prompt, written = asked.text("run"), asked.text("prompt", ""), _written(asked)
    units, gate = asked.number("units", int, 32, least=1, most=256), asked.text("gate", "h", most=40)
    with shelf.using(run, progress) as model:
        text = prompt + next_token(model, prompt, written, _config(asked, model), 1).text
        progress(0, 1, "reading")
        found = model.states(text)
        names = [level.name for level in found.levels]
        level = asked.number("level", int, len(names) - 1, least=0, most=len(names) - 1)
        gates = list(found.levels[level].gates())
        figure = found.figure(level, gate, units)
    python = (
        f"import firth\n\nmodel = firth.load({str(shelf.path(run))!r})\nstates = model.states({text!r})\n"
        f"figure = states.figure({level}, {gate!r}, {units})\nfigure.plot\n"
    )
    return Shown({"state": figure}, python, {"levels": names, "gates": gates})


def _written(asked: Asked) -> list[int]:
    """Ids with commas between them."""
    given = asked.text("tokens", "")
    try:
        return [int(id) for id in given.split(",") if id]
    except ValueError:
        raise ConfigError(f'tokens is "{given[:60]}"; expected the numbers of tokens with commas between them') from None


def _given(asked: Asked, tokens: int | None = None) -> dict[str, int | float | None]:
    return {
        "temperature": asked.number("temperature", float, 1.0, least=0, most=10),
        "top_k": asked.number("top_k", int, 0, least=0),
        "top_p": asked.number("top_p", float, 1.0, most=1),
        "seed": asked.number("seed", int, 0, least=0),
        "tokens": tokens,
    }


def _config(asked: Asked, model: Run[Any], tokens: int | None = None) -> DecodingConfig:
    return model.decoding(_given(asked, tokens))


def _settings(asked: Asked, tokens: int | None = None) -> str:
    given = {name: value for name, value in _given(asked, tokens).items() if value is not None}
    return f"model.decoding({given!r})"


def _facts(found: Next) -> dict[str, object]:
    return {
        "written": [
            {"piece": piece, "token": token, "probability": probability}
            for piece, token, probability in zip(found.pieces, found.tokens, found.probabilities, strict=True)
        ],
        "text": found.text,
        "candidates": [
            {"id": one.id, "token": one.token, "probability": one.probability, "share": one.share} for one in found.candidates
        ],
        "drawn": {"id": found.drawn.id, "token": found.drawn.token, "probability": found.drawn.probability},
        "entropy": found.entropy,
        "ended": found.ended,
    }


def usable(shelf: Shelf) -> Usable:
    names = shelf.suited(lambda recipe: recipe.objective.kind == "next-token")
    return Usable(names, "No run here writes text: train a language model, as `firth train docs-char-gru --out runs/gru`.")


ROOM = Room(
    "generate",
    "Generate",
    "Write a text token by token: what may come next, how temperature and cuts change it, and what an RNN has in mind.",
    {"next": following, "write": writing, "state": state},
    usable,
)
