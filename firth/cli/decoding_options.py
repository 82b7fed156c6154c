"""The options of decoding that several verbs share; `Seed` is in app.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from firth.layers.quantised import Quantisation
    from firth.tasks.run import Run

Temperature = Annotated[
    float | None, typer.Option(help="0 is greedy decoding; 1 samples from the model's distribution. [default: the recipe's]")
]
TopK = Annotated[int | None, typer.Option(help="Sample only from the K most probable tokens. [default: the recipe's]")]
TopP = Annotated[
    float | None,
    typer.Option(help="Sample only from the smallest set of tokens with total probability P. [default: the recipe's]"),
]
MinP = Annotated[
    float | None,
    typer.Option(help="Sample only from tokens with at least P times the highest probability. [default: the recipe's]"),
]
SampledTemperature = Annotated[
    float | None,
    typer.Option(help="With --sample: below 1 sharpens the distribution, above 1 flattens it. [default: the recipe's]"),
]
RepetitionPenalty = Annotated[
    float | None, typer.Option(help="Above 1, tokens that have occurred are less probable. [default: the recipe's]")
]
Stop = Annotated[
    list[str] | None,
    typer.Option(help="End before the first occurrence of this string; may be given several times. [default: the recipe's]"),
]
SamplingBeam = Annotated[int | None, typer.Option(help="Beam size of beam search; 1 samples instead. [default: the recipe's]")]
GreedyBeam = Annotated[int | None, typer.Option(help="Beam size; 1 is greedy decoding. [default: the recipe's]")]
LengthPenalty = Annotated[
    float | None, typer.Option(help="α of the beam's length penalty; 0 favours short texts. [default: the recipe's]")
]
BeamGroups = Annotated[int | None, typer.Option(help="Groups of beams that avoid one another's tokens. [default: the recipe's]")]
Diversity = Annotated[
    float | None, typer.Option(help="With --beam-groups: penalty for another group's token. [default: the recipe's]")
]
Draft = Annotated[
    Path | None,
    typer.Option(
        help="Smaller run with the same vocabulary: it proposes tokens, the run verifies several in one step. [default: none]",
    ),
]
Quantise = Annotated[
    str | None, typer.Option(help="Round the weights to int8 or int4, which take less memory. [default: as they are]")
]


def quantisation(given: str | None) -> Quantisation | None:
    """For `load`, which refuses other names."""
    return cast("Quantisation | None", given)


def tell_quantised(model: Run[Any]) -> None:
    """What --quantise did, on standard error."""
    if model.quantised is not None:
        print(model.quantised, file=sys.stderr)
