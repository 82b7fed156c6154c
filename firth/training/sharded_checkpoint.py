"""Checkpoints of sharded trainings: a folder in which each process writes its part, by torch.distributed.checkpoint.

    step-00000100.sharded/shard-00001-….safetensors     one per process; safetensors, so nothing is pickled
    step-00000100.sharded/checkpoint.json               what a plain checkpoint has in its header, and the SHA-256 of each file

The folder is written under a temporary name and renamed by the first process once all files are on disk, so a checkpoint is
complete or absent. Any number of processes can read it, one included: torch puts the parts together as they are needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from firth import files
from firth.errors import CorruptFile
from firth.training.distributed import all_gathered, all_told, mine, ranks

SUFFIX = ".sharded"
_FACTS = "checkpoint.json"
Like = Callable[[str, torch.Size, torch.dtype], Tensor]  # a tensor of that name, shape and type to read into


def save(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """All processes call this; each writes the parts that it holds."""
    from torch.distributed.checkpoint import hf_storage, state_dict_saver

    temporary = all_told(lambda: path.parent / f"{files.TEMPORARY}{uuid.uuid4().hex}")
    with files.writing(path):
        temporary.mkdir(parents=True, exist_ok=True)
        writer = hf_storage.HuggingFaceStorageWriter(str(temporary), save_distributed=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that one process is one process
            state_dict_saver.save(dict(tensors), storage_writer=writer, no_dist=ranks().world == 1)
        own = {file.name: _on_disk(file) for file in temporary.glob(f"shard-{ranks().rank + 1:05d}-*")}
        hashes = {name: sha256 for part in all_gathered(own) for name, sha256 in part.items()}
        if ranks().first:
            facts = {**metadata, "files": json.dumps(hashes)}
            files.write_text(temporary / _FACTS, json.dumps({"metadata": facts, "sha256": _digest(facts)}))
            if path.exists():
                shutil.rmtree(path)
            os.replace(temporary, path)
            files.flush(path.parent)


def facts_of(path: Path) -> dict[str, str]:
    """The metadata. Raises CorruptFile if a bit of them, or of any file, has changed; each process checks some of the files."""
    try:
        content = json.loads((path / _FACTS).read_text(encoding="utf-8"))
        facts: dict[str, str] = content["metadata"]
        if _digest(facts) != content["sha256"]:
            raise ValueError
        hashes: dict[str, str] = json.loads(facts.pop("files"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(f"{path} is damaged: {_FACTS} is missing or changed") from error
    checked = [name for number, name in enumerate(sorted(hashes)) if mine(number)]
    damaged = [name for name in checked if not (path / name).is_file() or files.sha256_of(path / name) != hashes[name]]
    for name in sorted(name for part in all_gathered(damaged) for name in part):
        raise CorruptFile(f"{path} is damaged: {name} is missing or changed")
    return facts


def load(path: Path, like: Like) -> dict[str, Tensor]:
    """The tensors, read into what `like` makes for each of them: a DTensor gets this process's part."""
    from torch.distributed.checkpoint import hf_storage, state_dict_loader

    reader = hf_storage.HuggingFaceStorageReader(str(path))
    stored = reader.read_metadata().state_dict_metadata
    tensors = {name: like(name, one.size, one.properties.dtype) for name, one in stored.items()}  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one process is one process
        state_dict_loader.load(tensors, storage_reader=reader, no_dist=ranks().world == 1)
    return tensors


def plain(name: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
    """A whole tensor on the CPU."""
    return torch.empty(size, dtype=dtype)


def _digest(facts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _on_disk(file: Path) -> str:
    """Flush a file, and hash it."""
    files.flush(file)
    return files.sha256_of(file)
