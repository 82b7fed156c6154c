"""firth generate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, Seed, print_json, verb


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
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Continue a prompt. Tokens are printed as they are generated."""
    import sys

    from firth.api import load
    from firth.tasks.next_token import LanguageModelRun

    if prompt == "-":
        prompt = sys.stdin.read()
    model = load(run, kind=LanguageModelRun)
    config = model.decoding({"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed})
    pieces = model.stream(prompt, config)
    if as_json:
        print_json({"prompt": prompt, "continuation": "".join(pieces), "seed": config.seed})
        return
    print(prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
