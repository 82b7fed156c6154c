"""The index file: document vectors and inverted index in one safetensors file, so that documents are embedded only once.

The header says which documents and which model each part was made from; a part made from others is not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.files import exists, load_tensors, save_tensors
from firth.vectors.firth_file import is_safetensors

FORMAT, VERSION = "firth-index", "1"
Arrays = Mapping[str, NDArray[Any]]


@dataclass
class IndexFile:
    """The index file of some documents, part by part: a part is the arrays of one method."""

    path: Path | None  # None: nothing is kept
    documents: str  # fingerprint
    made_from: dict[str, str]  # method → fingerprint of its model
    arrays: dict[str, Arrays]
    changed: bool = False

    @classmethod
    def opened(cls, file: str | os.PathLike[str] | None, documents: str) -> IndexFile:
        """The file at `file`, without the parts that were made from other documents."""
        path = Path(file).expanduser() if file is not None else None
        before, made_from, arrays = _read(path) if path is not None and exists(path) else ("", {}, {})
        return cls(path, documents, made_from, arrays) if before == documents else cls(path, documents, {}, {})

    def part(self, method: str, made_from: Callable[[], str], make: Callable[[], Arrays]) -> Arrays:
        """The stored part, or, if there is none or it was made from another model, a new one."""
        if self.path is None:
            return make()
        model = made_from()
        if self.made_from.get(method) != model:
            self.arrays[method], self.made_from[method], self.changed = make(), model, True
        return self.arrays[method]

    def save(self) -> None:
        if self.path is None or not self.changed:
            return
        import torch

        tensors = {
            f"{method}.{name}": torch.tensor(np.asarray(array))
            for method, arrays in self.arrays.items()
            for name, array in arrays.items()
        }
        facts = {"format": FORMAT, "version": VERSION, "documents": self.documents, "made_from": json.dumps(self.made_from)}
        save_tensors(self.path, tensors, facts)
        self.changed = False


def _read(path: Path) -> tuple[str, dict[str, str], dict[str, Arrays]]:
    """Documents, models and parts. A file of another kind is an error, so that it is never overwritten."""
    if path.is_dir() or not _is_safetensors(path):
        raise DataError(f"{path} is not an index of `firth search`. Choose another file")
    tensors, metadata = load_tensors(path)
    if metadata.get("format") != FORMAT:
        raise DataError(f"{path} is not an index of `firth search`. Choose another file")
    if metadata.get("version") != VERSION:
        return "", {}, {}  # of another version of firth: everything is made anew
    made_from: dict[str, str] = json.loads(metadata["made_from"])
    arrays: dict[str, dict[str, NDArray[Any]]] = {method: {} for method in made_from}
    for name, tensor in tensors.items():
        method, _, array = name.partition(".")
        arrays[method][array] = tensor.numpy()
    return metadata["documents"], made_from, dict(arrays)


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        return is_safetensors(file.read(9))
