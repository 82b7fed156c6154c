"""firth evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[str | None, typer.Option(help="Text to evaluate on; the run's own held-out text where not given.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a run: loss, perplexity and bits per character on held-out text."""
    from firth.api import load
    from firth.cli.progress import Display

    with Display() as display:
        result = load(run).evaluate(data, display.work)
    if as_json:
        print_json(result)
        return
    bits = result["bits_per_character"]
    print(f"{'text':<20}{result['split']}")
    print(f"{'tokens':<20}{result['tokens']:,}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per token")
    print(f"{'perplexity':<20}{result['perplexity']:.4f}")
    print(f"{'bits per character':<20}" + (f"{bits:.4f}" if bits is not None else "not defined: the tokenizer loses characters"))
