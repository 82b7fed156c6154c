"""The weights of a Hugging Face folder: *.safetensors, in one file or in shards, or pytorch_model.bin.

Nothing is trusted: the sizes that a file declares are checked against its length, a name in an index may not leave the folder,
and pickled objects are never loaded. Values are memory-mapped. Each tensor has a mapping of its own, so that the pages of one
that was copied are freed.
"""

from __future__ import annotations

import json
import math
import pickle
import struct
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth.errors import CorruptFile, DataError
from firth.files import expect_finite
from firth.interop.files.foreign_json import is_inside, read_json, shown
from firth.interop.files.gguf_file import GGUFFile

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_HEADER_LIMIT = 100_000_000  # bytes, as in the safetensors library
_CONVERT = "Convert it on a machine that trusts it: model = AutoModel….from_pretrained(DIR); model.save_pretrained(NEW)."
_OTHER = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")


class SafetensorsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._header = _header(path)
        self.shapes = {name: tuple(entry["shape"]) for name, entry in self._header.items()}

    def dtype(self, name: str) -> torch.dtype | str:
        """The type of a tensor; a string names one that holds no floating-point numbers."""
        kind = str(self._header[name]["dtype"])
        return _FLOATS.get(kind, kind)

    def tensor(self, name: str) -> Tensor:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
                return tensor
        except (SafetensorError, OSError) as error:
            raise CorruptFile(f"{self.path} is truncated or damaged: {error}") from error


def _header(path: Path) -> dict[str, Any]:
    """Names, types, shapes and places of the tensors, checked against the length of the file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > min(size - 8, _HEADER_LIMIT):
                raise CorruptFile(
                    f"{path} is truncated or damaged: it declares a header of {length:,} bytes, but has {size:,} in all."
                )
            header = json.loads(file.read(length), object_pairs_hook=_once)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptFile(
            f"{path} is not a safetensors file: its header is not JSON, or names a tensor twice. Download it again."
        ) from error
    if not isinstance(header, dict):
        raise CorruptFile(f"{path} is not a safetensors file: its header is no table. Download it again.")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        _check_entry(path, name, entry, size - 8 - length)
    return dict(header)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table in which no name occurs twice: another reader would take the other one."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _check_entry(path: Path, name: str, entry: Any, room: int) -> None:
    try:
        (start, end), shape, kind = entry["data_offsets"], entry["shape"], entry["dtype"]
        whole = all(isinstance(number, int) and number >= 0 for number in (start, end, *shape)) and isinstance(kind, str)
    except (TypeError, KeyError, ValueError) as error:
        raise CorruptFile(f"{path} is damaged: its header does not describe {name}. Download it again.") from error
    if not whole or end > room or start > end:
        raise CorruptFile(
            f"{path} is truncated or damaged: {name} ends at byte {end}, but only {room:,} are there. Download it again."
        )
    if kind in _BYTES and math.prod(shape) * _BYTES[kind] != end - start:
        raise CorruptFile(f"{path} is damaged: {name} has {end - start:,} bytes, which do not fit its shape {tuple(shape)}.")


class TorchFile:
    """pytorch_model.bin, a zip of tensors, read by torch's loader of weights only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._tensors = _loaded(path)
        except pickle.UnpicklingError as error:
            raise DataError(f"{path} holds pickled Python objects, which could run any code. {_CONVERT}") from error
        except (RuntimeError, EOFError, OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
            raise CorruptFile(f"{path} is truncated or damaged: {reason}. Download it again.") from error
        if not isinstance(self._tensors, dict) or not all(isinstance(one, Tensor) for one in self._tensors.values()):
            raise DataError(f"{path} is not a table of tensors. {_CONVERT}")
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}
        for name, tensor in self._tensors.items():  # one number may pretend to be a matrix of any size
            if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
                raise CorruptFile(f"{path} is damaged: {name} has the shape {tuple(tensor.shape)}, but fewer values.")

    def dtype(self, name: str) -> torch.dtype | str:
        dtype = self._tensors[name].dtype
        return dtype if dtype in _FLOATS.values() else str(dtype).removeprefix("torch.")

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]


def _loaded(path: Path) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of pickle, before it refuses
        tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    return tensors


WeightFile = SafetensorsFile | TorchFile | GGUFFile


class WeightFiles:
    """All weight files of a folder, as if they were one."""

    def __init__(self, files: Mapping[str, WeightFile]) -> None:
        self._files = {_present(name): (file, name) for name, file in files.items()}
        self.shapes = {name: file.shapes[old] for name, (file, old) in self._files.items()}

    @classmethod
    def of(cls, folder: Path) -> WeightFiles:
        for name, kind in (("model.safetensors", SafetensorsFile), ("pytorch_model.bin", TorchFile)):
            if (folder / name).is_file():
                file: WeightFile = kind(folder / name)
                return cls(dict.fromkeys(file.shapes, file))
            index = folder / f"{name}.index.json"
            if index.is_file():
                return cls(_sharded(folder, index, kind))
        other = sorted(path.name for glob in _OTHER for path in folder.glob(glob))
        if other:
            raise DataError(f"{folder} has no model.safetensors or pytorch_model.bin, only {other[0]}. {_CONVERT}")
        raise DataError(f"{folder} has no weights; expected model.safetensors, or shards with model.safetensors.index.json.")

    def dtype(self, names: Iterable[str]) -> torch.dtype:
        """The type of all the tensors `names`; float32 where they differ."""
        given = {name: self._files[name] for name in names if name in self._files}
        kinds = {name: file.dtype(old) for name, (file, old) in given.items()}
        for name, kind in kinds.items():
            if isinstance(kind, str):
                raise DataError(
                    f"{name} is stored as {kind}, so these weights are quantised. Use the float16 or bfloat16 weights."
                )
        dtypes = set(kinds.values())
        only = dtypes.pop() if len(dtypes) == 1 else torch.float32
        assert isinstance(only, torch.dtype)
        return only

    def tensor(self, name: str) -> Tensor:
        file, old = self._files[name]
        tensor = file.tensor(old)
        expect_finite(tensor, old, str(file.path))
        return tensor


def _present(name: str) -> str:
    """The name that a tensor has today: checkpoints of 2018 and 2019 call gain and bias of a norm gamma and beta."""
    before, last = name.rpartition(".")[::2]
    new = {"gamma": "weight", "beta": "bias"}.get(last)
    return f"{before}.{new}" if new and before.endswith("LayerNorm") else name


def _sharded(folder: Path, index: Path, kind: type[SafetensorsFile] | type[TorchFile]) -> dict[str, WeightFile]:
    table: Mapping[str, str] | None = read_json(index).get("weight_map")
    if not table:
        raise DataError(f"{index} has no readable weight_map. Download it again.")
    names = sorted(set(table.values()))
    for name in names:
        if not is_inside(name):
            raise DataError(f"{index} names the file {shown(name)}, which is not in its folder. Download it again.")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{len(missing)} of {len(names)} weight files are missing, the first is {missing[0]}. Download them.")
    files: dict[str, WeightFile] = {name: kind(folder / name) for name in names}
    for tensor, name in table.items():
        if tensor not in files[name].shapes:
            raise DataError(f"{index.name} says that {name} holds {shown(tensor)}, but it does not. Download both again.")
    file_of: dict[str, WeightFile] = {}
    for file in files.values():
        for tensor in file.shapes:
            if tensor in file_of:
                raise DataError(f"{tensor} is in both {file_of[tensor].path.name} and {file.path.name}. Download both again.")
            file_of[tensor] = file
    return file_of
