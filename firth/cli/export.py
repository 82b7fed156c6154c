"""firth export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, destination, print_json, verb
from firth.progress.display import Display


@verb()
def export(
    run: Annotated[Path, typer.Argument(help="Run folder, Hugging Face folder or GGUF file.")],
    folder: Annotated[Path | None, typer.Argument(help="The same as --out.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; it must be empty or not exist yet.")] = None,
    format: Annotated[str, typer.Option(help="Format to write: hf, onnx, safetensors, gguf or ctranslate2.")] = "hf",
    license: Annotated[str, typer.Option(help="Licence of the weights, for the model card.")] = "unknown",
    dtype: Annotated[
        str | None, typer.Option(help="Type of the written weights: float32, float16 or bf16. [default: that of the run]")
    ] = None,
    quantise: Annotated[
        str | None, typer.Option(help="Quantise the matrices of a GGUF file: q8_0, q4_0 or q4_k_m. [default: not quantised]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run as a folder that other tools open."""
    from firth.api import export_model

    folder = destination(folder, out, "FOLDER")
    with Display("exporting") as display:
        export_model(
            run,
            folder,
            format=format,
            license=license,
            dtype=dtype,  # type: ignore[arg-type]  # it will be checked
            quantise=quantise,  # type: ignore[arg-type]
            progress=display.work,
        )
    written = sorted(path.name for path in folder.iterdir())
    if as_json:
        print_json({"folder": str(folder), "format": format, "files": written})
        return
    print(f"{folder}: {', '.join(written)}")
