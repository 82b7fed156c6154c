"""firth train"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.settings import settings

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.training.folder import RunFolder


@verb(takes_settings=True)
def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `firth recipes`) or a TOML file.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, or start it if there is none.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model from a recipe.

    Any setting of the recipe can be overridden: --model.depth=6 --data.path=my.txt"""
    from firth.api import find_recipe, train_recipe
    from firth.cli.progress import watching

    chosen = find_recipe(recipe, settings(context.args))
    with watching() as watcher:
        folder = train_recipe(chosen, out, resume=resume, watcher=watcher)
    result = _measured(folder, chosen)
    if as_json:
        print_json({"run": str(out), **result})
        return
    measured = f"{chosen.task.headline(result)} on the {result['split']} data" if result else "trained; nothing was held out"
    print(f"{out}: {measured}. Next: {chosen.task.next_command.format(run=out)}")


def _measured(folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
    """The metrics of the best weights on the validation data, from the log. Where nothing was held out: those of the training
    data, unless they came from standard input. The test data are left to `evaluate`: they choose no setting."""
    from firth.api import load
    from firth.training import log
    from firth.training.trainer import selection_loss

    evaluations: list[dict[str, Any]] = [line["valid"] for line in log.read(folder.log) if "valid" in line]
    if evaluations:
        best = min(evaluations, key=lambda valid: selection_loss(valid, recipe.training.select))
        return {**best, "split": "valid"}
    return {} if recipe.data.path == "-" else load(folder.path, recipe.training.device).evaluate(split="train")
