"""From a recipe to a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from firth import files
from firth.api.init_from_run import as_begun, begin_as, with_vocabulary
from firth.api.recipe import Recipe, read_recipe
from firth.api.tasks import Data, Task, data_for, task_for
from firth.api.tokenizers import read_tokenizers
from firth.config import to_table
from firth.errors import ConfigError, DataError, RunError
from firth.models import Network
from firth.models.initialise import initialise
from firth.models.pretrained import embed, read_embedding
from firth.progress import silent
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.data.labelled import Labelled
from firth.text.data.parallel import Parallel, Tokenizers
from firth.text.data.questions import Answered
from firth.text.data.tagged import Tagged
from firth.training import checkpoint, loop
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
    recipe, tokenizers = _vocabulary(recipe, folder, old)
    data = data_for(recipe if old is None else _with_labels(recipe, old.data.labels), tokenizers, watcher.work)
    if isinstance(data, Parallel | Labelled | Answered) and data.notice:
        watcher.notice(data.notice)
    recipe = _with_fingerprint(recipe, data, old)
    training = started(recipe, data, watcher.notice, resuming=old is not None)
    if old:
        files.write_text(folder.recipe, recipe.toml())
        checkpoint.restore(training, folder, watcher.notice)
    else:
        RunFolder.create(out, recipe.toml(), data.tokenizer.to_json(), _source_tokenizer(data))
    watcher.begin(training, recipe)
    task = task_for(recipe, data)
    train(
        training,
        task.loss,
        recipe.training,
        folder,
        evaluate=(lambda: _metrics(training, task, watcher.work)) if task.has_valid else None,
        watch=watcher.step,
    )
    return folder


def _vocabulary(recipe: Recipe, folder: RunFolder, old: Recipe | None) -> tuple[Recipe, TokenizerConfig | Tokenizers]:
    """That of the run so far, or of the one it begins with; otherwise what the recipe says of it."""
    if old is not None:
        return as_begun(recipe, old), read_tokenizers(folder, old)
    return with_vocabulary(recipe) if recipe.training.init is not None else (recipe, recipe.tokenizer)


def _source_tokenizer(data: Data) -> str | None:
    """As a file of its own, where it is one."""
    if not isinstance(data, Parallel) or data.source_tokenizer is data.tokenizer:
        return None
    return data.source_tokenizer.to_json()


def _metrics(training: loop.Training, task: Task, progress: Progress) -> dict[str, Any]:
    return task.validate(training.model, progress)


def started(
    recipe: Recipe, data: Data, notice: Callable[[str], None] = lambda message: None, resuming: bool = False
) -> loop.Training:
    """A training at step 0: weights drawn, or read from model.vectors or another run, and batches from the beginning."""
    config, task = recipe.training, task_for(recipe, data)
    model = task.network()
    initialise(model, torch.Generator().manual_seed(config.seed))
    if recipe.model.vectors is not None:
        if resuming:  # its weights come from the checkpoint, and the file may be gone
            read_embedding(model).weight.requires_grad_(not recipe.model.vectors_fixed)
        else:
            tokenizer = data.source_tokenizer if isinstance(data, Parallel) else data.tokenizer
            notice(_embedded(model, tokenizer, recipe.model.vectors, recipe.model.vectors_fixed))
    if config.init is not None and not resuming:
        notice(begin_as(model, recipe, data.tokenizer.vocab))
    return loop.start(model, task.batches(), config)


def _embedded(model: Network, tokenizer: Tokenizer, file: str, fixed: bool) -> str:
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab)]
    found = embed(model, tokens, file, fixed)
    return f"{found:,} of {len(tokens):,} tokens have a vector in {file}"


def _to_resume(folder: RunFolder, recipe: Recipe, resume: bool) -> Recipe | None:
    """The recipe of the run that `out` holds and that is to be continued; None for a new run."""
    if not folder.exists():
        RunFolder.expect_room(folder.path)  # said now, not after the text has been read
        return None
    RunFolder.open(folder.path)
    if not resume:
        raise RunError(f"{folder.path} already holds a run; add --resume to continue it, or choose another --out")
    old = read_recipe(folder.recipe)
    _check_same(old, as_begun(recipe, old))
    return old


def _check_same(old: Recipe, new: Recipe) -> None:
    """Refuse to continue a run under a recipe that would have made another run."""
    for table in ("data", "tokenizer", "model", "objective", "training"):
        before, after = to_table(getattr(old, table)), to_table(getattr(new, table))
        for key in sorted(before.keys() | after.keys()):
            # What the run itself filled in is not asked for again; the text is compared when it has been read.
            found = table == "data" and (key == "sha256" or (key == "labels" and after.get(key) is None))
            if before.get(key) != after.get(key) and not found and not (table == "training" and key in _FREE):
                raise ConfigError(
                    f"the run was started with {table}.{key} = {before.get(key)!r}, now it is {after.get(key)!r}; "
                    "resume it as it was, or start a new run with another --out"
                )


def _with_fingerprint(recipe: Recipe, data: Data, old: Recipe | None) -> Recipe:
    """The recipe with the classes and the hash of the text it was trained on; a resumed run must find the same text."""
    if old and old.data.sha256 not in (None, data.sha256):
        raise DataError("the text has changed since this run was started; restore it, or start a new run with another --out")
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, sha256=data.sha256))
    return _with_labels(recipe, data.labels) if isinstance(data, Labelled | Tagged) else recipe


def _with_labels(recipe: Recipe, labels: tuple[str, ...] | None) -> Recipe:
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, labels=labels))
