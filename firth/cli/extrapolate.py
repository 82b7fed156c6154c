"""firth extrapolate"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section
from firth.cli.settings import settings
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.experiments.extrapolation import Extrapolation


@verb(takes_settings=True)
def extrapolate(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Argument(help="A Transformer language model: a shipped recipe or a TOML file.")
    ] = "docs-char-transformer",
    positions: Annotated[
        str | None, typer.Option(help="Position schemes, separated by commas. [default: all, rotary+ntk and rotary+yarn too]")
    ] = None,
    lengths: Annotated[str, typer.Option(help="Lengths to evaluate, in multiples of training.context.")] = "1,2,4,8",
    tokens: Annotated[int, typer.Option(help="Held-out tokens to predict at each length.")] = 16_384,
    out: Annotated[Path | None, typer.Option(help="Folder to keep the runs in; those it has are not trained again.")] = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Compare position schemes beyond the trained length.

    Trains one small model per scheme, 200 steps each, and measures its loss in longer windows. Any setting of the recipe can be
    overridden: --training.steps=2000"""
    from firth.cli.app import watching
    from firth.experiments.extrapolation import POSITIONS, RECIPE
    from firth.experiments.extrapolation import extrapolate as study

    chosen = positions.split(",") if positions else POSITIONS
    arguments = context.args
    if recipe.startswith("--"):  # a setting, which typer took for the recipe that was left out
        recipe, arguments = RECIPE, [recipe, *arguments]
    results = study(
        recipe, settings(arguments), positions=chosen, lengths=_numbers(lengths), tokens=tokens, out=out, watching=watching
    )
    if save is not None:
        _save(save, results)
    if as_json:
        print_json(dataclasses.asdict(results))
        return
    print(_lead(results))
    print()
    print(results.text())


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(f'--lengths is "{text}"; write whole numbers separated by commas, such as 1,2,4,8') from None


def _lead(results: Extrapolation) -> str:
    return (
        f"Loss in nats per token on the same {results.tokens:,} held-out tokens, read in windows of {_listed(results.lengths)} "
        f"tokens. Trained on windows of {results.context:,}, {results.steps:,} steps ({results.recipe})."
    )


def _listed(lengths: tuple[int, ...]) -> str:
    *first, last = (f"{length:,}" for length in lengths)
    return f"{', '.join(first)} and {last}" if first else last


def _save(path: Path, results: Extrapolation) -> None:
    study = section("Beyond the trained length", _lead(results), results.figures())
    save_figures(path, "Length extrapolation", [study], "firth extrapolate")
