"""firth train"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.settings import settings
from firth.errors import Diverged, Interrupted

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.training.folder import RunFolder


@verb(takes_settings=True)
def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `firth recipes`) or a TOML file.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, or start it if there is none.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model from a recipe.

    Any setting of the recipe can be overridden: --model.depth=6 --data.path=my.txt

    On several GPUs or machines: torchrun --nproc-per-node=N -m firth train RECIPE --out RUN"""
    from firth.api import find_recipe
    from firth.api.training import train_into
    from firth.cli.app import watching
    from firth.training.distributed import is_first

    chosen = find_recipe(recipe, settings(context.args))
    if not is_first():
        _train_along(chosen, out, resume, overwrite)
        return
    with watching() as watcher:
        folder = train_into(chosen, out, resume=resume, overwrite=overwrite, watcher=watcher)
    result = _measured(folder, chosen)
    if as_json:
        print_json({"run": str(out), **result})
        return
    measured = f"{chosen.task.headline(result)} on the {result['split']} data" if result else "trained; nothing was held out"
    print(f"{out}: {measured}. Next: {chosen.task.next_command.format(run=out)}")


def _train_along(recipe: Recipe, out: Path, resume: bool, overwrite: bool) -> None:
    """Train in a process that is not the first of several: print nothing, because the first one does."""
    from firth.api.training import train_into

    try:
        train_into(recipe, out, resume=resume, overwrite=overwrite)
    except (Diverged, Interrupted) as error:
        raise typer.Exit(error.exit_code) from None


def _measured(folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
    """The metrics of the best weights on the validation data, from the log. Where nothing was held out: those of the training
    data, unless they came from standard input. The test data are left to `evaluate`: they choose no setting."""
    from firth.api import load
    from firth.training import log
    from firth.training.trainer import best_validation

    if (best := best_validation(log.read(folder.log), recipe.training.select)) is not None:
        return {**best, "split": "valid"}
    return {} if recipe.data.path == "-" else load(folder.path, recipe.training.device).evaluate(split="train")
