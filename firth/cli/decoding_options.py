"""The options of decoding that several verbs share: one for each setting of DecodingConfig."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth.cli.app import F, refuse_given, takes_options
from firth.decoding.config import SEARCHING, DecodingConfig, drawing, offered
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.layers.quantised import Quantisation
    from firth.tasks.run import Run

Draft = Annotated[
    Path | None, typer.Option(help="Smaller run with the same vocabulary, for speculative decoding. [default: none]")
]
Quantise = Annotated[
    str | None, typer.Option(help="Round the weights to int8 or int4, which take less memory. [default: not quantised]")
]

Settings = dict[str, Any]  # of DecodingConfig, None for those that were not given


def takes_decoding(*, sample: bool = False, without: Collection[str] = ()) -> Callable[[F], F]:
    """Give a verb an option for each setting of DecodingConfig, in the place of its argument `decoding`, where it finds what was
    given. `sample`: the verb samples only with its option --sample."""
    return takes_options("decoding", {name: (_option(name, sample), None) for name in offered() if name not in without})


def _option(name: str, sample: bool) -> Any:
    field = DecodingConfig.__dataclass_fields__[name]
    kind = list[str] if isinstance(field.default, tuple) else type(field.default)
    meaning = re.sub(r"`(\w+)`", lambda match: f"--{match[1].replace('_', '-')}", field.metadata["meaning"])
    told = f"{meaning}. [default: the recipe's]"
    if sample and name in drawing():
        told = f"with --sample and {told.removeprefix('with ')}" if told.startswith("with --") else f"with --sample: {told}"
    return Annotated[kind | None, typer.Option(help=told[0].upper() + told[1:])]


def beam_of(decoding: Settings, recipe: DecodingConfig, nbest: int) -> int:
    """The beam that was given, or the recipe's, but at least of as many texts as are to be printed."""
    return max(recipe.beam, nbest) if decoding["beam"] is None else int(decoding["beam"])


def check_beam(config: DecodingConfig, nbest: int, decoding: Settings) -> None:
    """Refuse more texts than the beam holds, and options of beam search where there is none."""
    if config.beam < nbest:
        raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {config.beam}")
    if config.beam == 1:
        refuse_given(_of(decoding, SEARCHING), "only applies to beam search; add --beam or remove it")
    if config.beam_groups == 1:
        refuse_given(_of(decoding, ("diversity",)), "only applies to groups; add --beam-groups or remove it")


def check_sample(sample: bool, decoding: Settings, nbest: int) -> None:
    """Refuse options of sampling without --sample, and those of the search with it."""
    if not sample:
        refuse_given(_of(decoding, drawing()), "only applies to sampling; add --sample or remove it")
        return
    if decoding["beam"] is not None or nbest > 1:
        raise ConfigError("--sample cannot be combined with --beam or --nbest; choose one")
    refuse_given(_of(decoding, SEARCHING), "only applies to beam search; remove it or --sample")


def _of(decoding: Settings, names: Collection[str]) -> Settings:
    return {name: value for name, value in decoding.items() if name in names and name != "beam"}


def quantisation(given: str | None) -> Quantisation | None:
    """The argument of `load`, which refuses unknown names."""
    return cast("Quantisation | None", given)


def tell_quantised(model: Run[Any]) -> None:
    """Report on stderr what --quantise did."""
    if model.quantised is not None:
        print(model.quantised, file=sys.stderr)
