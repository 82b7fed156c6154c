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
    """Train a model by a recipe. Any setting of the recipe can be overridden: --model.depth=6 --data.path=my.txt"""
    from firth.api import train_recipe
    from firth.api.objectives import ABOUT
    from firth.cli.progress import watching
    from firth.experiments.shipped import find_recipe

    chosen = find_recipe(recipe, settings(context.args))
    with watching() as watcher:
        folder = train_recipe(chosen, out, resume=resume, watcher=watcher)
    result = _measured(folder, chosen)
    if as_json:
        print_json({"run": str(out), **result})
        return
    following = ABOUT[chosen.objective.kind].next.format(run=out)
    measured = f"{_shown(result)} on its {result['split']} text" if result else "trained; nothing was held out to measure it on"
    print(f"{out}: {measured}. Next: {following}")


def _shown(result: dict[str, Any]) -> str:
    from firth.cli.progress import headline

    if "bits_per_character" not in result:
        return headline(result)
    bits = result["bits_per_character"]
    return f"{bits:.3f} bits per character" if bits is not None else f"perplexity {result['perplexity']:.2f}"


def _measured(folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
    """What the log says of the best weights on the validation text. Where nothing was held out: what `evaluate` says of the
    training text, unless that was standard input, which is gone. The test text is left to `evaluate`; it chooses no setting."""
    from firth.api import load
    from firth.training import log
    from firth.training.trainer import badness

    evaluations: list[dict[str, Any]] = [line["valid"] for line in log.read(folder.log) if "valid" in line]
    if evaluations:
        best = min(evaluations, key=lambda valid: badness(valid, recipe.training.select))
        return {**best, "split": "valid"}
    return {} if recipe.data.path == "-" else load(folder.path, recipe.training.device).evaluate(split="train")
