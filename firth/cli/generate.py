"""firth generate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, Seed, print_json, verb


@verb()
def generate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    prompt: Annotated[str, typer.Argument(help="The text to continue; '-' reads it from standard input.")],
    tokens: Annotated[int | None, typer.Option(help="How many tokens to write.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0 takes the most probable token each time; 1 samples as trained.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the K most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among the fewest tokens that have probability P together.")] = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Continue a prompt, token by token as it is drawn."""
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
