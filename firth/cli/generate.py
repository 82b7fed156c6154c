"""firth generate"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.decoding_options import (
    Draft,
    Quantise,
    Settings,
    beam_of,
    check_beam,
    quantisation,
    takes_decoding,
    tell_quantised,
)

if TYPE_CHECKING:
    from firth.tasks.abilities.continuation import Continuation


@verb()
@takes_decoding()
def generate(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model.")],
    prompt: Annotated[str, typer.Argument(help="Text to continue; '-' reads it from standard input.")],
    decoding: Settings,
    nbest: Annotated[int, typer.Option(help="Texts of the beam to print, as `rank ||| text ||| score`.", min=1)] = 1,
    quantise: Quantise = None,
    draft: Draft = None,
    as_json: Json = False,
) -> None:
    """Continue a prompt, by sampling or with beam search."""
    from firth.api import load
    from firth.decoding.search.speculative import Acceptance
    from firth.tasks.ability import GENERATE

    model = load(run, kind=GENERATE, quantise=quantisation(quantise))
    if prompt == "-":
        prompt = model.without_last_newline(sys.stdin.read())
    tell_quantised(model)
    config = model.generation(decoding | {"beam": beam_of(decoding, model.recipe.decoding, nbest)})
    check_beam(config, nbest, decoding)
    if config.beam > 1 and draft is None:
        _print_found(prompt, model.after_prompt, model.continuations(prompt, config)[:nbest], nbest, as_json)
        return
    counts = Acceptance()
    pieces = model.stream(prompt, config, None if draft is None else load(draft, kind=GENERATE), counts)
    if as_json:
        result = {"prompt": prompt, "continuation": "".join(pieces), "seed": config.seed}
        print_json(result if draft is None else {**result, **dataclasses.asdict(counts)})
        return
    print(prompt, end=model.after_prompt, flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _print_found(prompt: str, after_prompt: str, continuations: list[Continuation], nbest: int, as_json: bool) -> None:
    if as_json:
        best = dataclasses.asdict(continuations[0])
        more = {"nbest": [dataclasses.asdict(one) for one in continuations]} if nbest > 1 else {}
        print_json({"prompt": prompt, "continuation": best.pop("text"), **best, **more})
    elif nbest == 1:
        print(prompt + after_prompt + continuations[0].text)
    else:
        for rank, one in enumerate(continuations, start=1):
            text = (prompt + after_prompt + one.text).replace("\n", "\\n")  # one line each
            print(f"{rank} ||| {text} ||| {one.score:.4f}")
