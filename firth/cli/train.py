"""firth train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, complain, print_json, verb
from firth.cli.settings import settings


@verb(takes_settings=True)
def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `firth recipes`) or a TOML file.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, or start it if there is none.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model by a recipe. Any setting of the recipe can be overridden: --model.depth=6 --data.path=my.txt"""
    from firth.api import Watcher, load, train_recipe
    from firth.cli.progress import TrainingProgress
    from firth.experiments.shipped import find_recipe

    chosen = find_recipe(recipe, settings(context.args))
    with TrainingProgress() as progress:
        watcher = Watcher(preparing=progress.preparing, begin=progress.begin, step=progress.step, notice=complain)
        folder = train_recipe(chosen, out, resume=resume, watcher=watcher)
    result = load(folder.path, chosen.training.device).evaluate()
    if as_json:
        print_json({"run": str(out), **result})
        return
    bits = result["bits_per_character"]
    shown = f"{bits:.3f} bits per character" if bits is not None else f"perplexity {result['perplexity']:.2f}"
    print(f"{out}: {shown} on its {result['split']} text. Next: firth generate {out} PROMPT")
