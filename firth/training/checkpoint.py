"""A checkpoint is one safetensors file: weights, optimiser, random states and carried state as tensors; step, data position,
recipe and tokenizer in its header; and a checksum over all of it. One file, one rename: it is whole or absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from firth import files
from firth.errors import CorruptFile, RunError
from firth.layers.state import RecurrentState
from firth.training.folder import FORMAT, RunFolder
from firth.training.loop import Training

Notice = Callable[[str], None]


def save(training: Training, folder: RunFolder, keep: int) -> Path:
    """Write the checkpoint of this step, then drop all but the newest `keep`.

    One that claims a later step was found damaged and passed over; it must not count among those to keep.
    """
    path = folder.checkpoints / f"step-{training.step:08d}.safetensors"
    metadata = {
        "format": str(FORMAT),
        "state": json.dumps(_facts(training)),
        "recipe": folder.recipe.read_text(encoding="utf-8"),
        "tokenizer": folder.tokenizer.read_text(encoding="utf-8"),
    }
    if folder.source_tokenizer.is_file():
        metadata["source_tokenizer"] = folder.source_tokenizer.read_text(encoding="utf-8")
    files.save_tensors(path, _tensors(training), metadata)
    found = checkpoints(folder)
    now = found.index(path)
    for unwanted in found[:now] + found[now + keep :]:
        with files.writing(unwanted):
            unwanted.unlink(missing_ok=True)
    return path


def checkpoints(folder: RunFolder) -> list[Path]:
    """Newest first."""
    return sorted(folder.checkpoints.glob("step-*.safetensors"), reverse=True)


def restore(training: Training, folder: RunFolder, notice: Notice) -> bool:
    """Bring `training` to the newest checkpoint that is whole. False if there is no checkpoint at all."""
    files.sweep(folder.path)
    files.sweep(folder.checkpoints)
    found = checkpoints(folder)
    if not found:
        return False
    newest = _newest_whole(found, notice)
    if newest is None:
        raise RunError(f"all {len(found)} checkpoints in {folder.checkpoints} are damaged; remove them to train from the start")
    tensors, metadata = newest
    _put_back(training, tensors, json.loads(metadata["state"]))
    return True


def _newest_whole(found: list[Path], notice: Notice) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    """What the first undamaged file holds; a damaged one is named and passed over."""
    for path in found:
        try:
            tensors, metadata = files.load_tensors(path)
        except CorruptFile as error:
            notice(f"{error}; using the checkpoint before it")
            continue
        _check_format(path, metadata)
        return tensors, metadata
    return None


def save_weights(training: Training, folder: RunFolder) -> None:
    """model.safetensors: the weights that the run stands for."""
    files.save_tensors(folder.model, training.model.state_dict(), {"format": str(FORMAT), "step": str(training.step)})


def load_weights(folder: RunFolder, notice: Notice) -> dict[str, Tensor]:
    """The run's weights; where that file is damaged or not yet there, those of its newest whole checkpoint."""
    found = checkpoints(folder)
    if folder.model.is_file():
        try:
            tensors, metadata = files.load_tensors(folder.model)
        except CorruptFile as error:
            notice(f"{error}; using the newest checkpoint")
        else:
            _check_format(folder.model, metadata)
            return tensors
    elif not found:
        raise RunError(f"{folder.path} has no trained weights yet; `firth train … --out {folder.path} --resume` makes them")
    newest = _newest_whole(found, notice)
    if newest is not None:
        return _under("model/", newest[0]) | _under("average/", newest[0])
    raise RunError(
        f"{folder.path} has no undamaged weights: neither {folder.model.name} nor a checkpoint can be read; train it again"
    )


def _facts(training: Training) -> dict[str, object]:
    facts = {name: getattr(training, name) for name in ("step", "tokens", "seconds", "best", "best_step", "since_best")}
    return {**facts, "recent": [float(loss) for loss in training.recent], "position": training.batches.position}


def _tensors(training: Training) -> dict[str, Tensor]:
    tensors = {f"model/{name}": tensor for name, tensor in training.model.state_dict().items()}
    for name, parameter in training.model.named_parameters():
        for key, value in training.optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"optimizer/{name}/{key}"] = value
    if training.average is not None:
        tensors |= {f"average/{name}": tensor for name, tensor in training.average.weights.items()}
    for device, state in training.random.state.items():
        tensors[f"random/{device}"] = state
    if training.carried is not None:
        tensors["carried/h"] = training.carried.h_LBd
        if training.carried.c_LBd is not None:
            tensors["carried/c"] = training.carried.c_LBd
    return tensors


def _put_back(training: Training, tensors: dict[str, Tensor], facts: dict[str, object]) -> None:
    training.model.load_state_dict(_under("model/", tensors))
    moments = _under("optimizer/", tensors)
    for name, parameter in training.model.named_parameters():
        own = _under(f"{name}/", moments)
        if own:
            training.optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in own.items()}
    if training.average is not None:
        training.average.load(_under("average/", tensors))
    training.random.state.update(_under("random/", tensors))
    carried = {name: tensor.to(training.device) for name, tensor in _under("carried/", tensors).items()}
    training.carried = RecurrentState(carried["h"], carried.get("c")) if carried else None
    training.batches.seek(int(facts.pop("position")))  # type: ignore[call-overload]
    training.recent = [torch.tensor(loss, device=training.device) for loss in facts.pop("recent")]  # type: ignore[attr-defined]
    for name, value in facts.items():
        setattr(training, name, value)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    version = metadata.get("format", "")
    if not version.isdecimal() or int(version) > FORMAT:
        raise RunError(f"{path} has format {version or 'none'}; this firth reads up to {FORMAT}; upgrade firth to open it")
