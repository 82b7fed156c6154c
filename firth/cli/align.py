"""firth align: show the alignment of a translation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.save_option import Save, save_figures, section


@verb()
def align(
    run: Annotated[Path, typer.Argument(help="Run folder of a translation model with attention.")],
    source: Annotated[str, typer.Argument(help="The source sentence.")],
    target: Annotated[str | None, typer.Argument(help="Its translation.  [default: the model's own]")] = None,
    save: Save = None,
    beam: Annotated[int | None, typer.Option(help="Beam size for the model's own translation.")] = None,
    as_json: Json = False,
) -> None:
    """Show how a translation attends to its source words.

    The matrix has a row for each target word and a column for each source word. A fuller cell (in a figure, a darker one)
    means more attention weight."""
    import shutil

    from firth.api import load
    from firth.tasks.ability import TRANSLATE

    if target is not None:
        refuse_given({"beam": beam}, "only applies to the model's own translation, but you gave one. Remove one of them.")
    model = load(run, kind=TRANSLATE)
    alignment_of_pair = model.align(source, target, beam=beam)
    if save is not None:
        space = "" if model.tokenizer.spaces == "tokens" else " "
        written = target or space.join(alignment_of_pair.target[:-1])  # without <eos>
        alignment = section("Alignment", f"{source} → {written}", [alignment_of_pair.figure()])
        saved = save_figures(save, f"Alignment by {run.name}", [alignment], "firth align")
    if as_json:
        weights = {name: rows.tolist() for name, rows in alignment_of_pair.weights.items()}
        print_json({"source": alignment_of_pair.source, "target": alignment_of_pair.target, "weights": weights})
        return
    print(alignment_of_pair.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"{saved}: {len(alignment_of_pair.weights)} {'map' if len(alignment_of_pair.weights) == 1 else 'maps'}")
