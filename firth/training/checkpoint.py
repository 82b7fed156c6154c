"""Save and restore checkpoints.

A checkpoint is one safetensors file. Weights, optimiser state, random states and the carried recurrent state are tensors; step,
data position, recipe and tokenizers are in its header; a checksum covers all of it. It is written under a temporary name and
renamed, so a checkpoint is either complete or absent.

A run that trains adapters keeps the weights that they adapt in one file, base.safetensors; its checkpoints hold the adapters and
whatever else is trained.

A training whose weights are distributed over processes (training.parallel = "fsdp") writes a folder instead of a file, see
sharded_checkpoint.py. Either can be resumed in any other way: by one process or by more, with whole weights or parts."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from firth import files
from firth.errors import CorruptFile, RunError, option
from firth.layers.state import RecurrentState
from firth.models import Network
from firth.models.adapters import base_weights, facts, merge, merged_weights, trained_names
from firth.models.peft_format import save_adapter
from firth.training import sharded_checkpoint as sharded
from firth.training.config import TrainingConfig
from firth.training.distributed import all_gathered, ranks
from firth.training.folder import FORMAT, RunFolder
from firth.training.loop import Training
from firth.training.parallel import distributed_like

Notice = Callable[[str], None]
_SUFFIXES = (".safetensors", sharded.SUFFIX)


class Saver:
    """Writes the checkpoints of a training: `with Saver(folder, config) as saver:` … `saver.save(training)`. Those of a sharded
    training are complete only after `wait`, or at the end of the context."""

    def __init__(self, folder: RunFolder, config: TrainingConfig) -> None:
        self._folder, self._keep = folder, config.keep
        self._writer = sharded.CheckpointWriter(config.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def wait(self) -> None:
        self._writer.wait()

    def save(self, training: Training) -> None:
        """Write the checkpoint of this step, then delete all but the newest.

        A checkpoint of a later step is deleted as well: `restore` found it damaged and skipped it."""
        whole = training.sharded is None
        path = self._folder.checkpoints / f"step-{training.step:08d}{'.safetensors' if whole else sharded.SUFFIX}"
        tensors, metadata = _tensors(training), _metadata(training, self._folder)
        if not whole:
            self._writer.begin(path, tensors, metadata, lambda: _keep_newest(self._folder, path, self._keep))
        elif ranks().first:
            files.save_tensors(path, tensors, metadata)
            _keep_newest(self._folder, path, self._keep)


def _metadata(training: Training, folder: RunFolder) -> dict[str, str]:
    metadata = {
        "format": str(FORMAT),
        "state": json.dumps(_facts(training)),
        "recipe": folder.recipe.read_text(encoding="utf-8"),
        "tokenizer": folder.tokenizer.read_text(encoding="utf-8"),
    }
    if adapters := facts(training.model):
        metadata["lora"] = adapters
    if folder.source_tokenizer.is_file():
        metadata["source_tokenizer"] = folder.source_tokenizer.read_text(encoding="utf-8")
    return metadata


def _keep_newest(folder: RunFolder, path: Path, keep: int) -> None:
    """Delete all checkpoints but `path` and the keep − 1 before it."""
    kept = checkpoints(folder)
    now = kept.index(path)
    for unwanted in kept[:now] + kept[now + keep :]:
        with files.writing(unwanted):
            shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink(missing_ok=True)


def checkpoints(folder: RunFolder) -> list[Path]:
    """The checkpoints of a run, newest first: files, or folders of a sharded training."""
    return sorted((path for path in folder.checkpoints.glob("step-*") if path.suffix in _SUFFIXES), reverse=True)


def restore(training: Training, folder: RunFolder, notice: Notice) -> bool:
    """Restore the newest intact checkpoint into `training`. False if the run has no checkpoint."""
    if ranks().first:
        files.sweep(folder.path)
        files.sweep(folder.checkpoints)
    paths = checkpoints(folder)
    if not paths:
        return False
    skipped: list[str] = []
    newest = _newest_intact(paths, skipped.append, _like(training))
    if newest is None:
        what = f"all {len(paths)} checkpoints" if len(paths) > 1 else "the only one of the checkpoints"
        are, them = ("are", "them") if len(paths) > 1 else ("is", "it")
        raise RunError(f"{what} in {folder.checkpoints} {are} damaged; remove {them} to train from the start")
    tensors, metadata = newest
    _check_tokenizers(folder, metadata)
    try:
        _restore_state(training, tensors, _state(metadata))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise RunError(f"the newest checkpoint in {folder.checkpoints} does not fit this run: {first}. Remove it") from error
    for message in skipped:  # imported only now, so that an error is one line
        notice(message)
    return True


def _newest_intact(
    paths: list[Path], notice: Notice, like: sharded.Like = sharded.plain
) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    """Tensors and metadata of the first undamaged file; a damaged one is skipped with a notice. `like`: see sharded.load."""
    for path in paths:
        try:
            if path.suffix == sharded.SUFFIX:
                metadata = sharded.facts_of(path)
                tensors = sharded.load(path, like)
            else:
                tensors, metadata = files.load_tensors(path)
            _check_format(path, metadata)
            _state(metadata, path)
        except CorruptFile as error:
            notice(f"{error}; using the previous checkpoint")
            continue
        return tensors, metadata
    return None


# The state that a checkpoint holds besides tensors; older runs lack some of it.
_STATE: dict[str, tuple[type, ...]] = {
    "step": (int,),
    "position": (int,),
    "recent": (list,),
    "tokens": (int,),
    "seconds": (int, float),
    "best": (int, float, type(None)),
    "best_step": (int,),
    "since_best": (int,),
    "average": (dict,),
}
_NEEDED = ("step", "position", "recent")


def _state(metadata: Mapping[str, str], path: Path | None = None) -> dict[str, Any]:
    try:
        state = json.loads(metadata.get("state", ""))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{path} is damaged: its state is not JSON") from error
    if not isinstance(state, dict):
        raise CorruptFile(f"{path} is damaged: its state is not an object")
    for name in _NEEDED:
        if name not in state:
            raise CorruptFile(f"{path} is damaged: its state has no {name}")
    for name, value in state.items():
        if name not in _STATE or not isinstance(value, _STATE[name]) or isinstance(value, bool):
            raise CorruptFile(f"{path} is damaged: {name!r} in its state is {str(value)[:20]!r}")
    if not all(isinstance(loss, int | float) for loss in state["recent"]) or not 0 <= state["step"] < 2**63:
        raise CorruptFile(f"{path} is damaged: its state has impossible numbers")
    return state


def save_weights(training: Training, folder: RunFolder) -> None:
    """Write model.safetensors: the best weights on validation, or the newest where nothing is validated. Adapters are merged
    into them, and also written by themselves."""
    with training.evaluated() as network:
        if not ranks().first:
            return
        with files.writing(folder.threshold):
            folder.threshold.unlink(missing_ok=True)  # the threshold was chosen for other weights
        metadata = {"format": str(FORMAT), "step": str(training.step), **folder.tokenizer_hashes()}
        files.save_tensors(folder.model, merged_weights(network), metadata)
        if facts(network):
            save_adapter(network, folder.adapter, base=str(folder.base.name))


def save_base(model: Network, folder: RunFolder) -> None:
    """Write the weights that adapters adapt, and the names of the others that are trained."""
    metadata = {"format": str(FORMAT), "trained": json.dumps(trained_names(model))}
    files.save_tensors(folder.base, base_weights(model), metadata)


def load_base(folder: RunFolder) -> tuple[dict[str, Tensor], list[str]]:
    """Read what `save_base` wrote."""
    tensors, metadata = files.load_tensors(folder.base)
    _check_format(folder.base, metadata)
    try:
        trained = json.loads(metadata["trained"])
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFile(f"{folder.base} is damaged: it does not name the trained weights. Restore it.") from error
    return tensors, [str(name) for name in trained] if isinstance(trained, list) else []


def load_weights(folder: RunFolder, notice: Notice) -> dict[str, Tensor]:
    """The weights in model.safetensors; if it is missing or damaged, those of the newest intact checkpoint."""
    paths, skipped = checkpoints(folder), list[str]()
    if folder.model.is_file():
        try:
            tensors, metadata = files.load_tensors(folder.model)
        except CorruptFile as error:
            skipped.append(f"{error}; using the newest checkpoint")
        else:
            _check_format(folder.model, metadata)
            _check_tokenizers(folder, metadata)
            for name, tensor in tensors.items():
                files.expect_finite(tensor, name, str(folder.model))
            return tensors
    elif not paths:
        train = option(f"firth.train(…, {str(folder.path)!r}, resume=True)", f"`firth train … --out {folder.path} --resume`")
        raise RunError(f"{folder.path} has no trained weights yet. Train it with {train}")
    newest = _newest_intact(paths, skipped.append)
    if newest is not None:
        _check_tokenizers(folder, newest[1])
        base = load_base(folder)[0] if "lora" in newest[1] else {}
        found_weights = base | _with_prefix("model/", newest[0]) | _with_prefix("average/", newest[0])
        merged = merge(found_weights, newest[1].get("lora", ""))
        for message in skipped:  # imported only now, so that an error is one line
            notice(message)
        return merged
    raise RunError(f"all weights in {folder.path} are damaged: {folder.model.name} and every checkpoint. Train the run again")


def _facts(training: Training) -> dict[str, object]:
    told = {name: getattr(training, name) for name in ("step", "tokens", "seconds", "best", "best_step", "since_best")}
    average = {} if training.average is None else {"average": training.average.facts()}
    return {**told, **average, "recent": [float(loss) for loss in training.recent], "position": training.batches.position}


def _tensors(training: Training) -> dict[str, Tensor]:
    tensors = {f"model/{name}": tensor for name, tensor in _saved(training.model).items()}
    for name, parameter in training.model.named_parameters():
        for key, value in training.optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"optimizer/{name}/{key}"] = value
    if training.average is not None:
        tensors |= {f"average/{name}": tensor for name, tensor in training.average.weights.items()}
    for device, state in training.random.state.items():
        tensors[f"random/{device}"] = state
    if training.carried is not None:
        parts = all_gathered(tuple(part_LBd.cpu() for part_LBd in training.carried.parts))  # of the rows of each process
        for name, rows in zip("hc", zip(*parts, strict=True), strict=False):
            tensors[f"carried/{name}"] = torch.cat(rows, dim=1)
    return tensors


def _saved(model: Network) -> dict[str, Tensor]:
    """The weights that a checkpoint holds: all, or with adapters those that are trained."""
    if not facts(model):
        return model.state_dict()
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _like(training: Training) -> sharded.Like:
    """A tensor to read a tensor of the checkpoint into, distributed like its weight."""
    weights = dict(training.model.named_parameters())

    def like(name: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        weight = _weight_of(name, weights)
        if weight is None or weight.shape != size:
            return sharded.plain(name, size, dtype)
        return torch.zeros_like(weight, dtype=dtype, requires_grad=False)

    return like


def _weight_of(name: str, weights: Mapping[str, Tensor]) -> Tensor | None:
    """The weight that model/NAME, average/NAME or optimizer/NAME/KEY belongs to."""
    kind, _, rest = name.partition("/")
    return weights.get(rest.rpartition("/")[0] if kind == "optimizer" else rest)


def _restore_state(training: Training, tensors: dict[str, Tensor], told: dict[str, object]) -> None:
    parameters = dict(training.model.named_parameters())
    for name, tensor in tensors.items():
        weight = _weight_of(name, parameters)
        if weight is not None and weight.shape == tensor.shape:
            tensors[name] = distributed_like(tensor, weight)
    weights = _with_prefix("model/", tensors)
    if weights.keys() != _saved(training.model).keys():
        raise RunError(
            "the checkpoint does not match the weights that this run trains. Restore its recipe.toml, or start a new run."
        )
    training.model.load_state_dict(weights, strict=False)
    moments = _with_prefix("optimizer/", tensors)
    states = {name: own for name in parameters if (own := _with_prefix(f"{name}/", moments))}
    names = {parameter: name for name, parameter in parameters.items()}
    for group in training.optimizer.param_groups:
        if len({frozenset(states[name]) for parameter in group["params"] if (name := names[parameter]) in states}) > 1:
            raise RunError("the checkpoint is damaged: the optimiser's states of some weights are incomplete. Start a new run.")
    for name, own in states.items():
        training.optimizer.state[parameters[name]] = {key: value.to(parameters[name].device) for key, value in own.items()}
    average: Any = told.pop("average", {})
    if training.average is not None:
        training.average.load(_with_prefix("average/", tensors), average)
    training.random.state.update(_with_prefix("random/", tensors))
    carried = {name: tensor.to(training.device) for name, tensor in _with_prefix("carried/", tensors).items()}
    training.carried = RecurrentState(carried["h"], carried.get("c")) if carried else None
    if training.carried is not None:
        training.carried = training.carried.select(ranks().share(training.carried.h_LBd.shape[1]))
    training.batches.seek(int(told.pop("position")))  # type: ignore[call-overload]
    training.recent = [torch.tensor(loss, device=training.device) for loss in told.pop("recent")]  # type: ignore[attr-defined]
    for name, value in told.items():
        setattr(training, name, value)


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_tokenizers(folder: RunFolder, metadata: dict[str, str]) -> None:
    """Weights hold the hashes of their tokenizers, checkpoints the tokenizers themselves; weights of older runs hold neither."""
    for key, sha256 in folder.tokenizer_hashes().items():
        name = key.removesuffix("_sha256")
        kept = metadata.get(key) or (hashlib.sha256(metadata[name].encode()).hexdigest() if name in metadata else sha256)
        if kept != sha256:
            file = folder.path / f"{name}.json"
            raise RunError(f"{file} is not the one that these weights were trained with. Restore it, or train the run again")


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    version = metadata.get("format", "")
    if not version.isdecimal() or len(version) > 9 or int(version) > FORMAT:
        raise RunError(f"{path} has format {version[:20] or 'none'}; this firth reads up to {FORMAT}; upgrade firth")
