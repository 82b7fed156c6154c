"""firth positions: sinusoidal positions beside binary numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section


@verb()
def positions(
    length: Annotated[int, typer.Option(help="Number of positions.")] = 16,
    width: Annotated[int, typer.Option(help="Dimension of each position vector; even.")] = 8,
    base: Annotated[float, typer.Option(help="Base N of the frequencies N^(−2i/d).")] = 10_000.0,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Show sinusoidal positions beside the same numbers in binary.

    Both count with digits that change ever more slowly: bits, or waves."""
    import shutil

    from firth.inspection.positions import sinusoid_and_binary

    table = sinusoid_and_binary(length, width, base)
    if save is not None:
        lead = "A position as waves and as bits: from left to right, both change ever more slowly."
        save_figures(save, "Positions", [section("Sinusoid and binary numbers", lead, [table.figure()])], "firth positions")
    if as_json:
        print_json(table.facts())
        return
    print(table.text(shutil.get_terminal_size().columns))
