"""firth generate"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, Seed, print_json, verb
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.tasks.abilities.continuation import Continuation


@verb()
def generate(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model.")],
    prompt: Annotated[str, typer.Argument(help="Text to continue; '-' reads it from standard input.")],
    tokens: Annotated[int | None, typer.Option(help="Number of tokens to generate. [default: the recipe's]")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0 is greedy decoding; 1 samples from the model's distribution. [default: the recipe's]")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sample only from the K most probable tokens. [default: the recipe's]")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample only from the smallest set of tokens with total probability P. [default: the recipe's]"),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(help="Sample only from tokens with at least P times the highest probability. [default: the recipe's]"),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1, tokens that have occurred are less probable. [default: the recipe's]")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="End before the first occurrence of this string; may be given several times. [default: the recipe's]"),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size of beam search; 1 samples instead. [default: the recipe's]")] = None,
    penalty: Annotated[
        float | None, typer.Option(help="α of the beam's length penalty; 0 favours short texts. [default: the recipe's]")
    ] = None,
    beam_groups: Annotated[
        int | None, typer.Option(help="Groups of beams that avoid one another's tokens. [default: the recipe's]")
    ] = None,
    diversity: Annotated[
        float | None, typer.Option(help="With --beam-groups: penalty for another group's token. [default: the recipe's]")
    ] = None,
    nbest: Annotated[int, typer.Option(help="Texts of the beam to print, as `rank ||| text ||| score`.", min=1)] = 1,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Continue a prompt, by sampling or with beam search."""
    from firth.api import load
    from firth.tasks.next_token import LanguageModelRun

    if prompt == "-":
        prompt = sys.stdin.read()
    model = load(run, kind=LanguageModelRun)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    searching = {"penalty": penalty, "beam_groups": beam_groups, "diversity": diversity}
    beam = max(model.recipe.decoding.beam, nbest) if beam is None else beam
    common = {"tokens": tokens, "repetition_penalty": repetition_penalty, "stop": stop or None}
    config = model.generation({"beam": beam, **sampling, **searching, **common})
    _check(config.beam, nbest, searching)
    if config.beam > 1:
        _print_found(prompt, model.after_prompt, model.continuations(prompt, config)[:nbest], nbest, as_json)
        return
    pieces = model.stream(prompt, config)
    if as_json:
        print_json({"prompt": prompt, "continuation": "".join(pieces), "seed": config.seed})
        return
    print(prompt, end=model.after_prompt, flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _check(beam: int, nbest: int, searching: dict[str, int | float | None]) -> None:
    if beam < nbest:
        raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
    for name, value in searching.items():
        if value is not None and beam == 1:
            raise ConfigError(f"--{name.replace('_', '-')} only applies to beam search; add --beam or remove it")


def _print_found(prompt: str, after_prompt: str, found: list[Continuation], nbest: int, as_json: bool) -> None:
    if as_json:
        best = dataclasses.asdict(found[0])
        more = {"nbest": [dataclasses.asdict(one) for one in found]} if nbest > 1 else {}
        print_json({"prompt": prompt, "continuation": best.pop("text"), **best, **more})
    elif nbest == 1:
        print(prompt + after_prompt + found[0].text)
    else:
        for rank, one in enumerate(found, start=1):
            text = (prompt + after_prompt + one.text).replace("\n", "\\n")  # one line each
            print(f"{rank} ||| {text} ||| {one.score:.4f}")
