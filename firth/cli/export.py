"""firth export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def export(
    run: Annotated[Path, typer.Argument(help="Run folder of a Transformer: a language model or a translator.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write, which must not exist or be empty.")],
    format: Annotated[str, typer.Option(help="Format to write: hf, a folder that `transformers` opens, or ctranslate2.")] = "hf",
    license: Annotated[str, typer.Option(help="Licence of the weights, for the model card.")] = "unknown",
    as_json: Json = False,
) -> None:
    """Write a run for Hugging Face transformers or for CTranslate2."""
    from firth.api import export_model

    export_model(run, folder, format=format, license=license)  # type: ignore[arg-type]  # which refuses others
    written = sorted(path.name for path in folder.iterdir())
    if as_json:
        print_json({"folder": str(folder), "format": format, "files": written})
        return
    print(f"{folder}: {', '.join(written)}")
