"""firth describe"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.settings import settings

if TYPE_CHECKING:
    from firth.experiments.describe import PerProcess


@verb(takes_settings=True)
def describe(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A preset such as gpt3, a recipe (name or file), or a run folder.")],
    world: Annotated[int | None, typer.Option(help="Also count what each of this many training processes holds.")] = None,
    as_json: Json = False,
) -> None:
    """Count the parameters, FLOPs and memory of a model.

    Nothing is allocated. Any setting of a recipe, or of a preset's model, can be overridden: --model.depth=6"""
    from firth.experiments.describe import describe as described

    description = described(name, settings(context.args))
    shared = None if world is None else description.distributed(world)
    if as_json:
        print_json(description.facts() | ({} if shared is None else {"distributed": {**asdict(shared), "total": shared.total}}))
        return
    print(description.text())
    if shared is not None:
        _print_shared(shared)


def _print_shared(of: PerProcess) -> None:
    from firth.figures.counting import in_bytes

    print(f"\n{f'{of.world} processes, {of.parallel}':<20}about {in_bytes(of.total)} in each:")
    for name in ("weights", "gradients", "optimizer", "gathered", "activations"):
        if value := getattr(of, name):
            print(f"  {name:<18}{in_bytes(value)}")
    print(f"{'tokens per step':<20}{of.step_tokens:,}, of which each process reads {of.tokens:,}")
    print(f"{'sent per step':<20}{in_bytes(of.sent)} by each process, and as much received")
