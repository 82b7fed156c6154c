"""firth complete"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, refuse_given, verb

if TYPE_CHECKING:
    from firth.tasks.abilities.fill_mask import Filling

_PROPOSALS = 8


@verb()
def complete(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model or a masked language model.")],
    text: Annotated[
        str, typer.Argument(help='Text with a blank: "I was in a __. I was eating popcorn". Masked models fill several blanks.')
    ],
    candidates: Annotated[
        str | None, typer.Option(help="Fillers to rank, separated by commas. [default: proposed by the model]")
    ] = None,
    proposals: Annotated[int | None, typer.Option(help="Number of fillers to propose. [default: 8]", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Rank the words that could fill a blank. A language model ranks by log p(left + filler + right), beside p(filler | left); a
    masked language model by p(filler | rest of the text)."""
    from firth.api import load
    from firth.tasks.ability import COMPLETE, FILL

    if candidates is not None:
        refuse_given({"proposals": proposals}, "does not apply to --candidates. Remove one of them.")
    most = proposals or _PROPOSALS
    chosen = candidates.split(",") if candidates is not None else None
    model: Any = load(run)
    if FILL in model.abilities:
        _print_filled(model.fill(text, chosen, proposals=most), as_json)
        return
    completions = model.expect(COMPLETE).complete(text, chosen, proposals=most)
    if as_json:
        print_json([dataclasses.asdict(completion) for completion in completions])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("filler")
    for heading in ("log p(whole text)", "share", "p(filler | left)", "share by left alone"):
        table.add_column(heading, justify="right")
    for c in completions:
        numbers = (f"{c.log_probability:.2f}", f"{c.share:.1%}", f"{c.probability_given_left:.2e}", f"{c.share_given_left:.1%}")
        table.add_row(Text(c.filler), *numbers)  # Text: a filler may look like rich markup
    Console().print(table)


def _print_filled(fillings: list[list[Filling]], as_json: bool) -> None:
    if as_json:
        print_json([[dataclasses.asdict(filling) for filling in blank] for blank in fillings])
        return
    for number, blank in enumerate(fillings, 1):
        if len(fillings) > 1:
            print(f"blank {number}")
        for filling in blank:
            shown = filling.filler if filling.filler.strip() else repr(filling.filler)
            print(f"{filling.probability:>8.2%}  {shown}")
