"""firth score"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.decoding_options import Quantise, quantisation, tell_quantised


@verb()
def score(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model.")],
    file: Annotated[str, typer.Argument(help="Text file; '-' reads standard input.")],
    quantise: Quantise = None,
    as_json: Json = False,
) -> None:
    """Compute the log-probability and perplexity of a text. Also bits per character, if the tokenizer is lossless."""
    from firth.api import load
    from firth.progress.display import Display
    from firth.tasks.ability import SCORE
    from firth.text.data.running_text import read_text

    model = load(run, kind=SCORE, quantise=quantisation(quantise))
    tell_quantised(model)
    with Display() as display:
        text = model.without_last_newline(read_text(file, model.recipe.data))
        result = model.score([text], display.work)[0]
    if as_json:
        print_json(dataclasses.asdict(result))
        return
    print(f"{'tokens':<20}{result.tokens:,}")
    print(f"{'log probability':<20}{result.log_probability:.4f} nats")
    print(f"{'perplexity':<20}{result.perplexity:.4f}")
    if result.bits_per_character is not None:
        print(f"{'bits per character':<20}{result.bits_per_character:.4f}")
