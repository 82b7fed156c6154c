"""firth describe"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.settings import settings

if TYPE_CHECKING:
    from firth.experiments.describe import Description
    from firth.experiments.distribution import PerProcess


@verb(takes_settings=True)
def describe(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A preset such as gpt3, a recipe (name or file), or a run folder.")],
    world: Annotated[int | None, typer.Option(help="Also count what each of this many training processes holds.")] = None,
    as_json: Json = False,
) -> None:
    """Count the parameters, FLOPs and memory of a model.

    Nothing is allocated. Any setting of a recipe, or of a preset's model, can be overridden: --model.depth=6"""
    from firth.cli.progress import Display
    from firth.experiments.describe import describe as described

    with Display() as display:
        found = described(name, settings(context.args), display.work)
    shared = None if world is None else found.distributed(world)
    if as_json:
        print_json(_table(found) | ({} if shared is None else {"distributed": {**asdict(shared), "total": shared.total}}))
        return
    _print(found)
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


def _table(found: Description) -> dict[str, Any]:
    parts = [
        {"name": part.name, "shape": part.shape, "count": part.count, "weights": part.weights, "matrix": part.is_matrix}
        for part in found.of.parts
    ]
    names = ("name", "summary", "parameters", "trained", "left_out", "context", "flops_per_token", "training_flops_per_token")
    memory = ("training_bytes", "inference_bytes")
    facts = {key: getattr(found, key) for key in names + memory}
    own = {key: getattr(found.of, key) for key in ("weights", "matrices", "state_per_token", "state", "activations_per_token")}
    return {**facts, **own, "differs": found.differs or None, "parts": parts, "history": list(found.history)}


def _print(found: Description) -> None:
    from firth.figures.counting import in_bytes, short

    of = found.of
    print(f"{found.name}: {found.summary}" if found.summary else found.name)
    if found.differs:
        print(f"({found.differs})")
    print()
    margin = max(len(part.name) for part in of.parts) + 2
    for part in of.parts:
        shape = " × ".join(f"{size:,}" for size in part.shape)
        print(f"  {part.name:<{margin}}{part.count:>8,} of {shape:<20}{part.weights:>20,}")
    print()
    note = f", without {found.left_out:,} in norms and biases" if found.left_out else ""
    print(f"{'parameters':<20}{found.parameters:,}{note}")
    if found.trained is not None:
        print(f"{'trained':<20}{found.trained:,}: LoRA adapters, and layers that are new; the parameters above are frozen")
    print(f"{'matrices':<20}{of.matrices:,}, with {of.weights:,} weights")
    keys = f", attending to {found.context:,} tokens" if found.context and of.flops_per_key else ""
    print(
        f"{'FLOPs per token':<20}{short(found.flops_per_token)} forward{keys}; {short(found.training_flops_per_token)} training"
    )
    print(
        f"{'memory, training':<20}about {in_bytes(found.training_bytes)}: float32, AdamW, a batch of {found.tokens:,} tokens "
        f"({in_bytes(found.tokens * of.activations_per_token)} of it activations)"
    )
    kept = f"; {in_bytes(of.state_per_token)} more per token of context" if of.state_per_token else ""
    kept += f"; {in_bytes(of.state)} of state" if of.state else ""
    print(f"{'memory, inference':<20}{in_bytes(found.inference_bytes)}: float32, one text{kept}")
    if found.history:
        from firth.training.history import summary

        for number, line in enumerate(found.history):
            print(f"{'resumed' if number else 'made by':<20}{summary(line)}")
