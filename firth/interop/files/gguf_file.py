"""A GGUF file, the format of llama.cpp: metadata and tensors in one file.

    "GGUF" · version · counts · metadata: key, type, value … · tensors: name, shape, type, offset … · padding · values …

The header is read here, because nothing that it declares is trusted: each count and length is checked against what is left of the
file before anything is allocated. The values are memory-mapped; the package `gguf` dequantises them, one tensor at a time.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import ConfigError, CorruptFile, DataError
from firth.files import is_file, is_folder

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# Types of metadata by their numbers: unsigned and signed integers of 8, 16 and 32 bits, float32, bool, …
_SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
_SMALLEST_ENTRY, _SMALLEST_TENSOR = 13, 24  # bytes of an entry of the metadata, and of the description of a tensor
_DIMENSIONS = 4  # of a tensor, at most
_PLAIN = {"F32": torch.float32, "F16": torch.float16, "F64": torch.float64, "BF16": torch.bfloat16}
_AGAIN = "Download it again."


def package() -> ModuleType:
    try:
        import gguf
    except ImportError:
        raise ConfigError('GGUF files need the package gguf. Install it with pip install "firth[gguf]".') from None
    return gguf


def is_gguf(path: Path) -> bool:
    """True if this looks like a GGUF file: by its name, or by its first bytes."""
    if path.suffix.lower() == ".gguf" and not is_folder(path):
        return True  # or it is missing, which reading it will say
    if not is_file(path):
        return False
    with path.open("rb") as file:
        return file.read(4) == MAGIC


@dataclass(frozen=True)
class _Values:
    """The place of a tensor's values in the file."""

    kind: Any  # gguf.GGMLQuantizationType
    shape: tuple[int, ...]
    start: int
    size: int  # in bytes


class GGUFFile:
    """Metadata, and the tensors under llama.cpp's names, with the last dimension last, as torch has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gguf = package()
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from error
        except ValueError:  # an empty file cannot be mapped
            raise CorruptFile(f"{path} is empty. {_AGAIN}") from None
        header = _Header(path, self._bytes)
        tensors, entries = header.counts()
        self.metadata = dict(header.entry() for _ in range(entries))
        described = [header.tensor() for _ in range(tensors)]
        self._values = self._placed(described, header.place)
        self.shapes = {name: values.shape for name, values in self._values.items()}

    def dtype(self, name: str) -> torch.dtype | str:
        """Quantised tensors become float32."""
        kind = self._values[name].kind.name
        return kind if kind in ("I8", "I16", "I32", "I64") else _PLAIN.get(kind, torch.float32)

    def tensor(self, name: str) -> Tensor:
        values = self._values[name]
        plain = _PLAIN.get(values.kind.name)
        if plain is None:
            return torch.from_numpy(self._dequantised(name, values))
        count = math.prod(values.shape)
        return torch.frombuffer(self._bytes, dtype=plain, count=count, offset=values.start).view(values.shape)

    def _dequantised(self, name: str, values: _Values) -> NDArray[np.float32]:
        rows = np.frombuffer(self._bytes, np.uint8, values.size, values.start).reshape(*values.shape[:-1], -1)
        try:
            numbers: NDArray[np.float32] = self._gguf.quants.dequantize(rows, values.kind)
        except NotImplementedError:
            raise DataError(f"{name} is of the type {values.kind.name}, which the package gguf cannot dequantise.") from None
        return numbers.astype(np.float32, copy=False).reshape(values.shape)

    def _placed(self, described: list[tuple[str, tuple[int, ...], int, int]], end: int) -> dict[str, _Values]:
        alignment = self.metadata.get("general.alignment", self._gguf.GGUF_DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
            raise CorruptFile(f"{self.path} is damaged: general.alignment is {alignment!r}. {_AGAIN}")
        start = -(-end // alignment) * alignment
        values_of: dict[str, _Values] = {}
        for name, shape, kind, offset in described:
            if name in values_of:
                raise CorruptFile(f"{self.path} is damaged: it has the tensor {name} twice. {_AGAIN}")
            values_of[name] = self._place(name, shape, kind, start + offset)
        return values_of

    def _place(self, name: str, shape: tuple[int, ...], number: int, start: int) -> _Values:
        try:
            kind = self._gguf.GGMLQuantizationType(number)
            block, size_of_block = self._gguf.GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise DataError(f"{name} is of the type {number}, which the package gguf does not know. Upgrade gguf.") from None
        if shape[-1] % block or start % 8:
            raise CorruptFile(f"{self.path} is damaged: {name} of shape {shape} does not fit its type {kind.name}. {_AGAIN}")
        size = math.prod(shape) // block * size_of_block
        if start + size > len(self._bytes):
            raise CorruptFile(
                f"{self.path} is truncated or damaged: {name} ends at byte {start + size:,}, but only {len(self._bytes):,} are "
                f"there. {_AGAIN}"
            )
        return _Values(kind, shape, start, size)


class _Header:
    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self.path, self._content, self.place = path, content, 0

    def counts(self) -> tuple[int, int]:
        """The numbers of tensors and of entries of the metadata."""
        if self._take(4) != MAGIC:
            raise DataError(f"{self.path} is not a GGUF file: it does not begin with GGUF. {_AGAIN}")
        version = self._number("<I")
        if version not in _VERSIONS:
            advice = "Convert the model again with a newer llama.cpp." if version < min(_VERSIONS) else "It needs a newer firth."
            raise DataError(f"{self.path} has version {version} of GGUF; firth reads 2 and 3 (little-endian). {advice}")
        tensors, entries = self._number("<Q"), self._number("<Q")
        self._expect_room(tensors * _SMALLEST_TENSOR + entries * _SMALLEST_ENTRY)
        return tensors, entries

    def entry(self) -> tuple[str, Any]:
        """A key of the metadata, and its value."""
        return self._string(), self._value(self._number("<I"))

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, number of the type, and offset of the values."""
        name, dimensions = self._string(), self._number("<I")
        if not 1 <= dimensions <= _DIMENSIONS:
            raise self._damaged(f"{name} has {dimensions} dimensions")
        shape = tuple(self._number("<Q") for _ in range(dimensions))[::-1]
        if 0 in shape:
            raise self._damaged(f"{name} has the shape {shape}")
        return name, shape, self._number("<I"), self._number("<Q")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalars(kind, 1)[0]
        inner, count = self._number("<I"), self._number("<Q")
        if inner == _STRING:
            self._expect_room(8 * count)
            return [self._string() for _ in range(count)]
        return self._scalars(inner, count)

    def _scalars(self, kind: int, count: int) -> list[Any]:
        if kind not in _SCALARS:
            raise self._damaged(f"its metadata has a value of the type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        numbers = np.frombuffer(self._take(dtype.itemsize * count), dtype)
        # the shortest decimal that is this float32: 1e-05, not 9.999999747378752e-06
        return [float(str(number)) for number in numbers] if dtype.kind == "f" else numbers.tolist()

    def _string(self) -> str:
        return self._take(self._number("<Q")).decode("utf-8", "replace")

    def _number(self, format: str) -> int:
        return int(struct.unpack(format, self._take(struct.calcsize(format)))[0])

    def _take(self, size: int) -> bytes:
        self._expect_room(size)
        self.place += size
        return self._content[self.place - size : self.place]

    def _expect_room(self, size: int) -> None:
        if size > len(self._content) - self.place:
            raise self._damaged(f"it declares {size:,} bytes at byte {self.place:,}, but has {len(self._content):,} in all")

    def _damaged(self, what: str) -> CorruptFile:
        return CorruptFile(f"{self.path} is truncated or damaged: {what}. {_AGAIN}")
