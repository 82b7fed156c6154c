"""From a recipe to a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from firth import files
from firth.api.recipe import Recipe, read_recipe
from firth.config import to_table
from firth.errors import ConfigError, DataError, RunError
from firth.evaluation.perplexity import perplexity
from firth.models import language_model
from firth.models.initialise import initialise
from firth.objectives.next_token import next_token
from firth.text import Prepared, Progress, Tokenizer, prepare
from firth.text.batches import Streams, Windows
from firth.text.progress import silent
from firth.training import checkpoint, loop
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder
from firth.training.log import expect_tensorboard
from firth.training.trainer import Seen, train

# What may change when a run is resumed without making it another run.
_FREE = {"steps", "log_every", "evaluate_every", "checkpoint_every", "keep", "patience", "device", "compile", "tensorboard"}


@dataclass(frozen=True)
class Watcher:
    """How a caller follows a run; every part may be left silent."""

    work: Progress = silent  # reading, encoding, evaluating
    begin: Callable[[loop.Training, Recipe], None] = lambda training, recipe: None
    step: Callable[[Seen], None] = lambda seen: None
    notice: Callable[[str], None] = lambda message: None


def train_recipe(recipe: Recipe, out: Path, *, resume: bool = False, watcher: Watcher | None = None) -> RunFolder:
    """Train `recipe` into the folder `out`. With `resume`, continue to the bit from its newest whole checkpoint."""
    watcher = watcher or Watcher()
    recipe = recipe.resolved()
    if recipe.training.tensorboard:
        expect_tensorboard()  # said now, not after the text has been read
    folder = RunFolder(out)
    old = _to_resume(folder, recipe, resume)
    tokenizer = Tokenizer.from_json(folder.tokenizer.read_text(encoding="utf-8")) if old else recipe.tokenizer
    data = prepare(recipe.data, tokenizer, watcher.work)
    recipe = _with_fingerprint(recipe, data, old)
    if data.valid is not None and data.valid.count < 2:
        raise DataError(
            f"the held-out text has {data.valid.count} tokens, too few to predict one from another; "
            "give more text, a larger data.valid, or data.valid=0 to hold out nothing"
        )
    training = started(recipe, data)
    if old:
        files.write_text(folder.recipe, recipe.toml())
        checkpoint.restore(training, folder, watcher.notice)
    else:
        RunFolder.create(out, recipe.toml(), data.tokenizer.to_json())
    watcher.begin(training, recipe)
    valid = data.valid
    train(
        training,
        next_token,
        recipe.training,
        folder,
        evaluate=None if valid is None else lambda: _metrics(training, recipe, data, watcher.work),
        watch=watcher.step,
    )
    return folder


def _metrics(training: loop.Training, recipe: Recipe, data: Prepared, progress: Progress) -> dict[str, float | int | None]:
    assert data.valid is not None
    config = recipe.training
    measured = perplexity(
        training.model,
        data.valid,
        lossless=data.tokenizer.lossless,
        batch=config.batch,
        context=config.context,
        dtype=config.dtype,
        progress=progress,
    )
    return dataclasses.asdict(measured)


def started(recipe: Recipe, data: Prepared) -> loop.Training:
    config = recipe.training
    model = language_model(recipe.model, data.tokenizer.vocab)
    initialise(model, torch.Generator().manual_seed(config.seed))
    return loop.start(model, _batches(data, config), config)


def _batches(data: Prepared, config: TrainingConfig) -> Streams | Windows:
    kind = Streams if config.carry else Windows
    return kind(data.train.ids, config.batch, config.context, config.seed)


def _to_resume(folder: RunFolder, recipe: Recipe, resume: bool) -> Recipe | None:
    """The recipe of the run that `out` holds and that is to be continued; None for a new run."""
    if not folder.exists():
        RunFolder.expect_room(folder.path)  # said now, not after the text has been read
        return None
    RunFolder.open(folder.path)
    if not resume:
        raise RunError(f"{folder.path} already holds a run; add --resume to continue it, or choose another --out")
    old = read_recipe(folder.recipe)
    _check_same(old, recipe)
    return old


def _check_same(old: Recipe, new: Recipe) -> None:
    """Refuse to continue a run under a recipe that would have made another run."""
    for table in ("data", "tokenizer", "model", "objective", "training"):
        before, after = to_table(getattr(old, table)), to_table(getattr(new, table))
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key) and key != "sha256" and not (table == "training" and key in _FREE):
                raise ConfigError(
                    f"the run was started with {table}.{key} = {before.get(key)!r}, now it is {after.get(key)!r}; "
                    "resume it as it was, or start a new run with another --out"
                )


def _with_fingerprint(recipe: Recipe, data: Prepared, old: Recipe | None) -> Recipe:
    """The recipe with the hash of the text it was trained on; a resumed run must find the same text."""
    if old and old.data.sha256 not in (None, data.sha256):
        raise DataError("the text has changed since this run was started; restore it, or start a new run with another --out")
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, sha256=data.sha256))
