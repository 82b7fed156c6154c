"""firth import"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def import_(
    folder: Annotated[Path, typer.Argument(help="Hugging Face folder (config.json, weights, tokenizer) or GGUF file.")],
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    as_json: Json = False,
) -> None:
    """Convert a Hugging Face folder or a GGUF file to a run.

    Every verb that takes a run also takes the folder or file itself; importing makes it independent of the original."""
    from firth.api import import_model
    from firth.api.loading import network_of

    import_model(folder, out)
    recipe, network, _ = network_of(out)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    if as_json:
        print_json({"run": str(out), "architecture": recipe.imported, "parameters": parameters})
        return
    print(f"{recipe.imported} with {parameters:,} parameters written to {out}; try: {recipe.task.next_command.format(run=out)}")
