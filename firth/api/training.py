"""train(): from a recipe to a run."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from firth import files
from firth.api.init_from_run import initialise_from_run, train_kept_run, with_kept_run, with_tokenizer_of_run, with_vocabulary
from firth.api.inputs import fingerprints
from firth.api.loading import load
from firth.api.output_cost import costly_output
from firth.api.recipe import Recipe, compose, read_run_recipe, with_start
from firth.api.tokenizers import read_tokenizers
from firth.config import read_toml, to_table
from firth.errors import ConfigError, DataError, RunError, enough_memory, option
from firth.models import Network
from firth.models.adapters import adapt, freeze, trained_parameters
from firth.models.config import TransformerSettings
from firth.models.freezing import freeze_parts
from firth.models.initialise import initialise
from firth.models.parametrization import at_base
from firth.models.pretrained import embed
from firth.models.uninitialised import Uninitialised
from firth.progress import Progress, silent
from firth.progress.display import Display
from firth.shipped import recipe_path
from firth.tasks.run import Run
from firth.tasks.task import AnyTask, Tokenizers
from firth.text.config import TokenizerConfig
from firth.text.data.running_text import Prepared
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training import checkpoint, distributed, history, loop, trainer
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder, held
from firth.training.loggers import expect_installed
from firth.training.memory import expect_room_for
from firth.training.optim import OPTIMIZERS
from firth.training.trainer import StepReport

# Settings that may change when a run is resumed.
_FREE = {
    *("steps", "log_every", "evaluate_every", "checkpoint_every", "keep", "patience", "device", "compile", "log_to"),
    *("accumulate", "recompute", "parallel", "reduce", "timeout"),
}
_TRAINED = ("data", "tokenizer", "model", "objective", "training")  # the tables of a recipe that training depends on

Existing = Literal["refuse", "resume", "overwrite"]  # what to do if the run exists


@dataclass(frozen=True)
class Watcher:
    """Optional callbacks of a training."""

    work: Progress = silent  # called with (what, done, total) while data are read, encoded and evaluated
    begin: Callable[[loop.Training, Recipe], object] = lambda training, recipe: None  # called once, before the first step
    step: Callable[[StepReport], object] = lambda report: None  # called with the record of each step
    notice: Callable[[str], None] = lambda message: None  # called with each remark about the recipe or the data
    expects_validation: bool = False  # refuse data of which nothing is held out, because `step` needs validation metrics


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    out: str | Path,
    *,
    data: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    objective: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    decoding: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | bool = True,
    on_step: Callable[[StepReport], object] | None = None,
) -> Run[Any]:
    """Train `recipe` (the name of a shipped one, a TOML file, a nested dict or a Recipe) into the folder `out` and load the run.

    `data`, `tokenizer`, `model`, `objective`, `training` and `decoding` override single settings in these tables of the recipe:
    `training={"steps": 100}`. With `resume` an existing run is continued, to the bit. With `overwrite` it is replaced once the
    data have been read. `progress`: a progress bar shows the loss, `False` turns it off, and a function
    `progress(what, done, total)` is called while data are read ("reading", …) and after every step ("training"). `on_step`
    is called with the record of each step: its `step`, `loss`, `rate`, `tokens`, `seconds` and, where the
    step was evaluated, `valid`."""
    given = {
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "objective": objective,
        "training": training,
        "decoding": decoding,
    }
    changes = {name: dict(table) for name, table in given.items() if table is not None}
    chosen = as_recipe(recipe, changes)
    with watching(progress) as watcher:
        step = watcher.step if on_step is None else _both(watcher.step, on_step)
        noted = dataclasses.replace(watcher, step=step)
        return train_recipe(chosen, Path(out), resume=resume, overwrite=overwrite, watcher=noted)


def _both(first: Callable[[StepReport], object], second: Callable[[StepReport], object]) -> Callable[[StepReport], object]:
    return lambda report: (first(report), second(report))


@contextlib.contextmanager
def watching(progress: Progress | bool, label: str = "training") -> Iterator[Watcher]:
    """A Watcher that shows the training, reports it to a function, or is silent; notices become warnings of the caller."""

    def notice(message: str) -> None:
        warnings.warn(message, stacklevel=4)

    if progress is True:
        with Display(label) as display:
            yield Watcher(display.work, display.begin, display.step, notice)
        return
    report = silent if progress is False else progress
    steps = 0

    def begin(training: loop.Training, recipe: Recipe) -> None:
        nonlocal steps
        steps = recipe.training.steps
        report(label, training.step, steps)

    yield Watcher(report, begin, lambda seen: report(label, seen.step, steps), notice)


def as_recipe(recipe: str | Path | Mapping[str, Any] | Recipe, changes: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """A recipe from its name, file, dict or Recipe, with single settings changed."""
    if isinstance(recipe, Recipe):
        if not changes:
            return recipe
        table: Mapping[str, Any] = to_table(recipe)
    else:
        table = recipe if isinstance(recipe, Mapping) else read_toml(recipe_path(str(recipe)))
    return compose(table, [(f"{name}.{key}", value) for name, part in changes.items() for key, value in part.items()])


def train_recipe(
    recipe: Recipe, out: str | Path, *, resume: bool = False, overwrite: bool = False, watcher: Watcher | None = None
) -> Run[Any]:
    """As `train`: train a Recipe, `recipe`, into the folder `out` and load the run, with callbacks instead of a progress bar.

    With `resume` an existing run is continued, with `overwrite` it is replaced. `watcher`: a Watcher with your callbacks; None is
    silent."""
    folder = train_into(recipe, Path(out), resume=resume, overwrite=overwrite, watcher=watcher)
    return load(folder.path, recipe.training.device)


@enough_memory("Lower training.batch, training.context or the sizes in [model], or raise training.accumulate.")
def train_into(
    recipe: Recipe, out: Path, *, resume: bool = False, overwrite: bool = False, watcher: Watcher | None = None
) -> RunFolder:
    """Train `recipe` into the folder `out`. With `resume`, continue to the bit from its newest whole checkpoint; with
    `overwrite`, replace the run in it.

    Every process that torchrun started calls this with the same arguments; they share the work, and the first one writes and
    watches. After a failure torchrun starts them anew, and they resume. Of two trainings into the same folder, the second is
    refused."""
    if resume and overwrite:
        raise ConfigError(f"{option('resume=True')} and {option('overwrite=True')} cannot be combined. Remove one of them.")
    if recipe.imported is not None:
        raise ConfigError(
            f"this recipe describes an imported model, {recipe.imported}. To train it further, write a recipe with "
            "training.init set to its folder."
        )
    with distributed.joined(recipe.training) as ranks:
        if ranks.world > 1 and recipe.data.path == "-":
            raise ConfigError('data.path is "-", but several processes cannot read one standard input. Save the text to a file.')
        watcher = watcher if watcher is not None and ranks.first else Watcher()
        with held(out):
            existing: Existing = "resume" if resume or distributed.restarted() else "overwrite" if overwrite else "refuse"
            return _train(recipe, out, existing, watcher)


@dataclass(frozen=True)
class _Prepared:
    """The state of a process before training begins."""

    recipe: Recipe
    data: Any
    batches: Any
    network: Network


def _train(recipe: Recipe, out: Path, existing: Existing, watcher: Watcher) -> RunFolder:
    recipe, first = with_kept_run(recipe.resolved())
    expect_installed(recipe.training.log_to)  # an error now, not after the data have been read
    folder = RunFolder(out)
    if distributed.all_told(lambda: first is not None and _to_resume(folder, recipe, existing) is None) and first is not None:
        watcher.notice(f"this recipe starts from another, which is trained first and kept as {recipe.training.init}")
        kept = Path(str(recipe.training.init))
        train_kept_run(first, kept, lambda first, out, resume: train_into(first, out, resume=resume, watcher=watcher))
    ready = distributed.in_turn(lambda: _prepare(recipe, folder, existing, watcher))
    recipe, data, task = ready.recipe, ready.data, ready.recipe.task
    training = loop.start(ready.network, ready.batches, recipe.training, task.counts(data))
    checkpoint.restore(training, folder, watcher.notice)
    watcher.begin(training, recipe)
    with _recorded(recipe, folder, training):
        trainer.train(
            training,
            task.loss(data),
            recipe.training,
            folder,
            evaluate=None if data.valid is None else (lambda network: _metrics(training, network, task, data, watcher.work)),
            watch=watcher.step,
        )
    distributed.all_arrived()  # the first process has written the weights, which the others may want to read
    return folder


def _recorded(recipe: Recipe, folder: RunFolder, training: loop.Training) -> contextlib.AbstractContextManager[None]:
    """The record of this training in the history of its run, if there are steps to train."""
    done = trainer.ended(training, recipe.training)
    return contextlib.nullcontext() if done else history.recorded(folder, training, fingerprints(recipe))


def _metrics(training: loop.Training, network: Network, task: AnyTask, data: Any, progress: Progress) -> dict[str, Any]:
    return task.validate(network, data, progress)


def _prepare(recipe: Recipe, folder: RunFolder, existing: Existing, watcher: Watcher) -> _Prepared:
    """Read the data, make the network and the run folder. Of several processes, the others find the folder that the first has
    made, and read it as a run that stopped before its first checkpoint."""
    first = distributed.ranks().first
    old = _to_resume(folder, recipe, existing if first else "resume")
    recipe, tokenizers = _tokenizers(recipe, folder, old)
    labels = {} if old is None else {"labels": getattr(old.data, "labels", None)}
    data = with_data(recipe, **labels).task.read(tokenizers, watcher.work)
    if notice := getattr(data, "notice", ""):
        watcher.notice(notice)
    recipe = with_facts(recipe, data, old)
    batches = recipe.task.batches(data)  # an error now, not after there is a folder
    _expect_validation(recipe, data, watcher)
    _expect_memory(recipe, data)
    saved = old is not None and checkpoint.checkpoints(folder)  # otherwise stopped before the first one: from the start
    network = initial_network(recipe, data, watcher.notice, folder if saved else None)
    if first and (cost := costly_output(network, recipe.model, recipe.tokenizer, loop.device_for(recipe.training.device).type)):
        watcher.notice(cost)
    if first:
        _write_folder(recipe, data, folder, new=old is None)
        if recipe.training.lora and not saved:
            checkpoint.save_base(network, folder)
    return _Prepared(recipe, data, batches, network)


def _write_folder(recipe: Recipe, data: Any, folder: RunFolder, *, new: bool) -> None:
    if not new:
        files.write_text(folder.recipe, recipe.toml())
        return
    if folder.exists():  # a run that is to be overwritten
        folder.clear()
    own, tokenizer = source_tokenizer(data), data.tokenizer
    source = None if own is tokenizer else own.to_json()
    RunFolder.create(folder.path, recipe.toml(), tokenizer.to_json(), source, tokenizer.settings_json())


def _expect_validation(recipe: Recipe, data: Any, watcher: Watcher) -> None:
    if data.valid is not None:
        return
    kind = OPTIMIZERS[recipe.training.optimizer]
    if kind.needs_validation:
        raise ConfigError(
            f'training.optimizer = "{kind.kind}" depends on the validation loss, but no data are held out. Set data.valid.'
        )
    if watcher.expects_validation:
        raise ConfigError("trials are compared on validation data, but no data are held out. Set data.valid or data.valid_path.")


def _expect_memory(recipe: Recipe, data: Any) -> None:
    with torch.device("meta"):
        network = recipe.task.network(source_tokenizer(data).vocab, data.tokenizer.vocab)
    by_windows = "training.batch_tokens" not in recipe.task.uses
    expect_room_for(network, recipe.training, recipe.model.width, by_windows)


def encode_recipe(recipe: Recipe, progress: Progress = silent) -> Prepared:
    """Tokenise the text of a recipe into the cache, ahead of training."""
    if recipe.task.reads != "running text":
        raise ConfigError(f"the recipe reads {recipe.task.reads}, but only running text can be encoded ahead. Train it directly.")
    recipe, tokenizers = _tokenizers(recipe.resolved(), RunFolder(Path()), None)
    data = with_data(recipe).task.read(tokenizers, progress)
    assert isinstance(data, Prepared)
    return data


def _tokenizers(recipe: Recipe, folder: RunFolder, old: Recipe | None) -> tuple[Recipe, TokenizerConfig | Tokenizers]:
    """The tokenizers of the resumed run or of training.init; otherwise the settings to learn them."""
    if old is not None:
        return with_tokenizer_of_run(recipe, old), read_tokenizers(folder, old)
    return with_vocabulary(recipe) if recipe.training.init is not None else (recipe, recipe.tokenizer)


def source_tokenizer(data: Any) -> Tokenizer:
    """The tokenizer of the network's input."""
    tokenizer: Tokenizer = getattr(data, "source_tokenizer", data.tokenizer)
    return tokenizer


def initial_network(
    recipe: Recipe, data: Any, notice: Callable[[str], None] = lambda message: None, resumed: RunFolder | None = None
) -> Network:
    """The network with initial weights: drawn, or read from model.embedding.vectors or another run. A checkpoint of the run
    `resumed` will replace whatever is trained; model.embedding.vectors and the other run may be gone."""
    config, task = recipe.training, recipe.task
    source = source_tokenizer(data)
    network = task.network(source.vocab, data.tokenizer.vocab)
    generator = torch.Generator().manual_seed(config.seed)
    initialise(network, generator, _base(recipe, source.vocab, data.tokenizer.vocab))
    if recipe.model.embedding.vectors is not None:
        if resumed is not None:
            network.source_embedding.weight.requires_grad_(not recipe.model.embedding.vectors_fixed)
        else:
            notice(_embedded(network, source, recipe.model.embedding.vectors, recipe.model.embedding.vectors_fixed))
    trained: Collection[str] = ()
    if config.init is not None and resumed is None:
        initialised, message = initialise_from_run(network, recipe, data.tokenizer.vocab)
        trained = {*initialised.new, *initialised.partly}
        notice(message)
    elif config.lora and resumed is not None:
        weights, trained = checkpoint.load_base(resumed)
        network.load_state_dict(weights)
    if config.lora:
        notice(_adapted(network, config, trained, generator))
    if config.freeze:
        notice(freeze_parts(network, config.freeze))
    return network


def _base(recipe: Recipe, source_vocab: int, vocab: int) -> Network | None:
    """With muP, the same network at the base width, without values."""
    model = at_base(recipe.model) if isinstance(recipe.model, TransformerSettings) else None
    if model is None:
        return None
    with torch.device("meta"), Uninitialised():
        return dataclasses.replace(recipe, model=model).task.network(source_vocab, vocab)


def _adapted(network: Network, config: TrainingConfig, trained: Collection[str], generator: torch.Generator) -> str:
    whole = sum(parameter.numel() for parameter in network.parameters())
    adapt(network, config.adapters, generator)
    freeze(network, trained)
    besides = f", and {len(trained)} new weights" if trained else ""
    return (
        f"{trained_parameters(network):,} parameters are trained: LoRA adapters of rank {config.lora}{besides}; "
        f"the {whole:,} parameters of the model are frozen"
    )


def _embedded(network: Network, tokenizer: Tokenizer, file: str, fixed: bool) -> str:
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab)]
    known = embed(network, tokens, file, fixed)
    return f"{known:,} of {len(tokens):,} tokens have a vector in {file}"


def _to_resume(folder: RunFolder, recipe: Recipe, existing: Existing) -> Recipe | None:
    """The recipe of the run to resume; None for a new run."""
    if not folder.exists():
        RunFolder.expect_room(folder.path)  # an error now, not after the data have been read
        return None
    if existing == "overwrite":
        return None
    RunFolder.open(folder.path)
    if existing == "refuse":
        raise RunError(
            f"{folder.path} already holds a run. Add {option('resume=True')} to continue it or {option('overwrite=True')} to "
            f"replace it, or choose another {option('folder', '--out')}."
        )
    old = read_run_recipe(folder.recipe)
    _check_same(old, with_tokenizer_of_run(recipe, old))
    return old


def _check_same(old: Recipe, new: Recipe) -> None:
    """Refuse to resume a run with a recipe that would train a different one."""
    changed = [one for one in differences(old, new) if not (one[0] == "training" and one[1] in _FREE)]
    for table, key, before, after in changed[:1]:
        raise ConfigError(
            f"the run was started with {table}.{key} = {before!r}; now it is {after!r}. Resume it unchanged, or start a new run "
            f"with another {option('folder', '--out')}."
        )


def differences(run: Recipe, new: Recipe, tables: Sequence[str] = _TRAINED) -> list[tuple[str, str, Any, Any]]:
    """The settings by which a recipe differs from that of a run: table, key, and both values. What the run filled in does not
    count; the data are compared once they have been read."""
    found = []
    for table in tables:
        before, after = to_table(getattr(run, table)), to_table(getattr(new, table))
        for key in sorted(before.keys() | after.keys()):
            filled_in = table == "data" and (key == "sha256" or (key == "labels" and after.get(key) is None))
            if before.get(key) != after.get(key) and not filled_in:
                found.append((table, key, before.get(key), after.get(key)))
    return found


def with_facts(recipe: Recipe, data: Any, old: Recipe | None = None) -> Recipe:
    """The recipe with the fingerprint and the labels of its data, and whether its vocabulary has <start>; a resumed run must find
    the same data."""
    if old and old.data.sha256 not in (None, data.sha256):
        raise DataError(
            "the data have changed since this run was started. Restore them, or start a new run with another "
            f"{option('folder', '--out')}."
        )
    recipe = with_start(recipe, data.tokenizer.start is not None)
    return with_data(recipe, sha256=data.sha256, labels=getattr(data, "labels", None))


def with_data(recipe: Recipe, **facts: Any) -> Recipe:
    """The recipe with some settings of [data] replaced; settings that this kind of data lacks are ignored."""
    own = {key: value for key, value in facts.items() if hasattr(recipe.data, key)}
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, **own))
