"""The first losses of every shipped recipe, to the bit: what a change that moves code must not move.

    FIRTH_DATA=… python tests/recorded_losses.py before.json             record, before the change
    FIRTH_LOSSES=before.json pytest tests/test_same_losses.py            compare, after it

Bits depend on the machine, so a record is compared where it was made and is not committed. Batches are smaller than the recipes',
so that all of them take a few minutes on a CPU; a recipe that begins with the weights of another gets those of its first step.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
from pathlib import Path

import torch

from firth.api import find_recipe, train_recipe
from firth.shipped import shipped

STEPS = 20
FIRST_CHARACTERS = 2_000_000  # of wiki8, which wiki8-mlm reads
PRETRAINED = ("wiki8-mlm", "sst2-mlm")  # each begins with the one before, and sst2-pretrained with the last


def assignments(name: str) -> list[str]:
    """The recipe as it is, smaller: on a CPU, not compiled, a batch of 4."""
    table = shipped()[name]
    given = ["training.device=cpu", "training.compile=false", f"training.steps={STEPS}", "training.log_every=1"]
    given += ["training.evaluate_every=0"]
    if name == "wiki8-mlm":
        given += ["data.path=wiki8.txt"]
    if "init" in table["training"]:
        given += [f"training.init=runs/{table['training']['init'].removeprefix('recipe:')}"]
    if "batch" in table["training"]:
        given += [f"training.batch={min(4, table['training']['batch'])}", "training.accumulate=1"]
    if "batch_tokens" in table["training"]:
        given += ["training.batch_tokens=512"]
    if "warmup" in table["training"]:
        given += ["training.warmup=2"]
    return given


def first_losses(name: str) -> list[float]:
    """The losses of the first steps, in the current folder, after `prepare`."""
    from firth.api.init_from_run import with_vocabulary
    from firth.api.training import initial_network, with_facts
    from firth.progress import silent
    from firth.training.loop import fit, start

    recipe = find_recipe(name, assignments(name)).resolved()
    recipe, tokenizers = (recipe, recipe.tokenizer) if recipe.training.init is None else with_vocabulary(recipe)
    data = recipe.task.read(tokenizers, silent)
    recipe = with_facts(recipe, data)
    task, network = recipe.task, initial_network(recipe, data)
    training = start(network, task.batches(data), recipe.training, task.counts(data))
    return [step.loss for step in fit(training, task.loss(data), recipe.training)]


def prepare(folder: Path) -> None:
    """Write the text of wiki8-mlm, and the runs from which other recipes start."""
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(Path(os.environ["FIRTH_DATA"]) / "wiki8" / "wiki8.xz", "rt") as wiki8:
        (folder / "wiki8.txt").write_text(wiki8.read(FIRST_CHARACTERS), encoding="utf-8")
    os.chdir(folder)
    for name in PRETRAINED:
        out = Path("runs") / name
        if not out.exists():
            train_recipe(find_recipe(name, [*assignments(name), "training.steps=1", "data.valid=0"]), out)


def main() -> None:
    path = Path(sys.argv[1]).absolute()
    torch.set_num_threads(1)
    prepare(path.with_suffix(""))
    losses = json.loads(path.read_text()) if path.exists() else {}
    for name in shipped():
        if name not in losses:
            losses[name] = first_losses(name)
            print(name, losses[name][-1], flush=True)
            path.write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
