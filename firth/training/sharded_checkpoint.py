"""Checkpoints of sharded trainings: a folder in which each process writes its part, by torch.distributed.checkpoint.

    step-00000100.sharded/shard-00001-….safetensors     one per process; safetensors, so nothing is pickled
    step-00000100.sharded/checkpoint.json               what a plain checkpoint has in its header, and the SHA-256 of each file

The folder is written under a temporary name and renamed by the first process once all files are on disk, so a checkpoint is
complete or absent. Several processes write while they train on. Any number of processes can read a checkpoint, one included:
torch puts the parts together as they are needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from firth import files
from firth.errors import CorruptFile
from firth.training.distributed import all_gathered, all_told, mine, ranks

SUFFIX = ".sharded"
_FACTS = "checkpoint.json"
Like = Callable[[str, torch.Size, torch.dtype], Tensor]  # a tensor of that name, shape and type to read into


class CheckpointWriter:
    """Writes checkpoints while several processes train on: `begin` returns once the tensors have been copied, `wait` once they
    are on disk under their name. One process alone writes at once."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timedelta(seconds=timeout)
        self._group: dist.ProcessGroup | None = None  # its own, so that nothing mixes with the messages of a step
        self._thread = ThreadPoolExecutor(1, "firth-checkpoint")
        self._pending: Future[None] | None = None

    def begin(self, path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], then: Callable[[], object]) -> None:
        """All processes call this; each writes the parts that it holds. `then` is called when the checkpoint is complete."""
        from torch.distributed.checkpoint import hf_storage, state_dict_saver

        self.wait()
        several = ranks().world > 1
        if several and self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=self._timeout)
        temporary = all_told(lambda: path.parent / f"{files.TEMPORARY}{uuid.uuid4().hex}")
        with _writing(path):
            temporary.mkdir(parents=True, exist_ok=True)
            writer = hf_storage.HuggingFaceStorageWriter(str(temporary), save_distributed=True)
            if several:
                saved = state_dict_saver.async_save(dict(tensors), storage_writer=writer, process_group=self._group)
                assert isinstance(saved, Future)
                self._pending = self._thread.submit(self._finish, saved, temporary, path, metadata, then)
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that one process is one process
                state_dict_saver.save(dict(tensors), storage_writer=writer, no_dist=True)
        self._finish(None, temporary, path, metadata, then)

    def wait(self) -> None:
        """Wait until the checkpoint is complete; raises its errors."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def _finish(
        self, saved: Future[Any] | None, temporary: Path, path: Path, metadata: Mapping[str, str], then: Callable[[], object]
    ) -> None:
        with _writing(path):
            if saved is not None:
                saved.result()
            own = {file.name: _on_disk(file) for file in temporary.glob(f"shard-{ranks().rank + 1:05d}-*")}
            hashes = {name: sha256 for part in all_gathered(own, self._group) for name, sha256 in part.items()}
            if not ranks().first:
                return
            facts = {**metadata, "files": json.dumps(hashes)}
            files.write_text(temporary / _FACTS, json.dumps({"metadata": facts, "sha256": _digest(facts)}))
            if path.exists():
                shutil.rmtree(path)
            os.replace(temporary, path)
            files.flush(path.parent)
        then()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Like files.writing, also for the errors of other processes, which torch hands on."""
    from torch.distributed.checkpoint.api import CheckpointException

    with files.writing(path):
        try:
            yield
        except CheckpointException as error:
            for failure in error.failures.values():
                if isinstance(failure[0], OSError):
                    raise failure[0] from error
            raise


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
    """The tensors, read into the result of `like` for each of them: a DTensor gets this process's part."""
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
