"""firth align"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def align(
    run: Annotated[Path, typer.Argument(help="A run folder of a model of sentence pairs, with attention.")],
    source: Annotated[str, typer.Argument(help="What is translated.")],
    target: Annotated[str | None, typer.Argument(help="Its translation; the run's own where not given.")] = None,
    save: Annotated[Path | None, typer.Option(help="An HTML page to write; it opens without a network.")] = None,
    beam: Annotated[int | None, typer.Option(help="For the run's own translation.")] = None,
    as_json: Json = False,
) -> None:
    """Show which source words each target word was made from: a row for each target word, its cells the fuller, and on the page
    the whiter, the more is taken."""
    import shutil

    from firth.api import load
    from firth.figures.figure import Table
    from firth.figures.page import Section, page
    from firth.files import write_text
    from firth.tasks.translation import TranslatorRun

    model = load(run, kind=TranslatorRun)
    found = model.align(source, target, beam=beam)
    if save is not None:
        written = target or ("" if model.tokenizer.kind == "char" else " ").join(found.target[:-1])  # without <eos>
        lead = f"{source} → {written}"
        section = Section("Alignment", lead, Table((), []), [found.figure()])
        write_text(save, page(f"Alignment by {run.name}", [section], "Drawn by firth align."))
    if as_json:
        weights = {name: rows.tolist() for name, rows in found.weights.items()}
        print_json({"source": found.source, "target": found.target, "weights": weights})
        return
    print(found.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"{save}: {len(found.weights)} {'map' if len(found.weights) == 1 else 'maps'}")
