"""The options of decoding that several verbs share; `Seed` is in app.py."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth.cli.app import refuse_given
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.decoding.sample import DecodingConfig
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


def check_beam(config: DecodingConfig, nbest: int, searching: Mapping[str, Any]) -> None:
    """Refuse --nbest larger than the beam, and options of beam search without a beam."""
    if config.beam < nbest:
        raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {config.beam}")
    if config.beam == 1:
        refuse_given(searching, "only applies to beam search; add --beam or remove it")
    if config.beam_groups == 1:
        refuse_given({"diversity": searching.get("diversity")}, "only applies to groups; add --beam-groups or remove it")


def check_sample(sample: bool, sampling: Mapping[str, Any], searching: Mapping[str, Any], beam: int | None, nbest: int) -> None:
    """Refuse sampling options without --sample, and beam search options with it."""
    if not sample:
        refuse_given(sampling, "only applies to sampling; add --sample or remove it")
        return
    if beam is not None or nbest > 1:
        raise ConfigError("--sample cannot be combined with --beam or --nbest; choose one")
    refuse_given(searching, "only applies to beam search; remove it or --sample")


def quantisation(given: str | None) -> Quantisation | None:
    """The argument of `load`, which refuses unknown names."""
    return cast("Quantisation | None", given)


def tell_quantised(model: Run[Any]) -> None:
    """Report on stderr what --quantise did."""
    if model.quantised is not None:
        print(model.quantised, file=sys.stderr)
