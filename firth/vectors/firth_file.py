"""The `.firth` file format for word vectors: one safetensors file, memory-mapped when it is opened.

    counts   int64   (V,)      how often each word occurred; absent if unknown
    vectors  float32 (V, d)    the word vectors
    outputs  float32 (·, d)    context vectors or inner nodes, for further training; may be absent
    words    uint8             the words as UTF-8, joined by "\\n"

The header's metadata holds the training state (config as JSON, epochs, state), the format version and a SHA-256. The checksum
is computed as in `firth.files`, so `files.load_tensors` reads these files too. This module needs no torch, and does not read a
gigabyte before the first query.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import CorruptFile, DataError, RunError
from firth.files import replacing

FORMAT, VERSION = "firth-vectors", 1
CHEAP = 1 << 24  # bytes: files up to this size are verified every time they are opened
_LONGEST_HEADER = 100_000_000  # safetensors' own limit
_TYPES: dict[str, tuple[np.dtype[Any], str]] = {  # safetensors' name → numpy's type, torch's name (part of the checksum)
    "I64": (np.dtype("<i8"), "torch.int64"),
    "F32": (np.dtype("<f4"), "torch.float32"),
    "U8": (np.dtype("u1"), "torch.uint8"),
}
_EXPECTED = {"counts": ("I64", 1), "vectors": ("F32", 2), "outputs": ("F32", 2), "words": ("U8", 1)}  # type, axes; this order
_OWN = ("format", "version", "sha256")  # metadata of the file format itself


@dataclass(frozen=True)
class Content:
    """The content of a file. The arrays of an opened file are memory-mapped and read when they are used."""

    words: list[str]
    vectors: NDArray[np.float32]
    counts: NDArray[np.int64] | None
    outputs: NDArray[np.float32] | None
    metadata: dict[str, str]


def is_safetensors(head: bytes) -> bool:
    """True if these first bytes are those of a safetensors file: the length of a JSON object, then the object."""
    return len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= _LONGEST_HEADER


def write(path: Path, content: Content) -> None:
    """Write the file atomically; no array is copied in memory."""
    given: dict[str, NDArray[Any] | None] = {
        "counts": content.counts,
        "vectors": content.vectors,
        "outputs": content.outputs,
        "words": np.frombuffer("\n".join(content.words).encode(), np.uint8),
    }
    tensors = {
        name: np.ascontiguousarray(given[name], _TYPES[kind][0])
        for name, (kind, _) in _EXPECTED.items()
        if given[name] is not None
    }
    metadata = {**content.metadata, "format": FORMAT, "version": str(VERSION)}
    header: dict[str, Any] = {"__metadata__": {**metadata, "sha256": _checksum(tensors, metadata)}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": _EXPECTED[name][0], "shape": list(tensor.shape), "data_offsets": [at, at := at + tensor.nbytes]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # align the first array to its item size
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.reshape(-1).view(np.uint8).data)


def read(path: Path, verify: bool | None = None) -> Content:
    """Open the file; the arrays stay on disk until they are used. `verify` compares the checksum; None: if the file is small."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start, header = _header(file, path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    metadata = header.pop("__metadata__", {})
    _check_kind(metadata, path)
    tensors = {name: _mapped(path, name, entry, start, size) for name, entry in header.items()}
    if start + sum(tensor.nbytes for tensor in tensors.values()) != size:
        raise CorruptFile(f"{path} is damaged: it is longer than its header says. Copy or download it again")
    if verify or (verify is None and size <= CHEAP):
        covered = {name: value for name, value in metadata.items() if name != "sha256"}
        if metadata.get("sha256") != _checksum(tensors, covered):
            raise CorruptFile(f"{path} is damaged: its checksum does not match. Copy or download it again")
    return _content(path, tensors, metadata)


def _header(file: IO[bytes], path: Path) -> tuple[int, dict[str, Any]]:
    """The offset of the arrays, and the parsed header."""
    head = file.read(9)
    if not is_safetensors(head):
        raise CorruptFile(f"{path} is not a .firth file: it is not in safetensors format")
    length = int.from_bytes(head[:8], "little")
    text = head[8:] + file.read(length - 1)
    try:
        header: dict[str, Any] = json.loads(text) if len(text) == length else {}
    except (ValueError, RecursionError):
        header = {}
    told = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not header or not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        raise CorruptFile(f"{path} is truncated or damaged: its header is incomplete. Copy or download it again")
    return 8 + length, header


def _check_kind(metadata: Mapping[str, str], path: Path) -> None:
    if metadata.get("format") != FORMAT:
        raise DataError(f"{path} contains tensors but no word vectors; expected a file written by `firth vectors`")
    version = metadata.get("version", "")
    if not version.isdecimal() or len(version) > 9 or int(version) > VERSION:
        raise RunError(f"{path} has format version {version[:20] or 'unknown'}; this firth reads up to {VERSION}. Upgrade firth")


def _mapped(path: Path, name: str, entry: Mapping[str, Any], start: int, size: int) -> NDArray[Any]:
    try:
        kind, shape, (begin, end) = str(entry["dtype"]), tuple(map(int, entry["shape"])), entry["data_offsets"]
        dtype, fits = _TYPES[kind][0], (kind, len(shape)) == _EXPECTED[name]
        fits = fits and type(begin) is int and begin >= 0 and end - begin == math.prod(shape) * dtype.itemsize
    except (KeyError, TypeError, ValueError, OverflowError):  # KeyError: also an unknown array name
        fits = False
    if not fits:
        raise CorruptFile(f'{path} is damaged: its header entry for "{name}" is invalid. Copy or download it again')
    if start + end > size:
        raise CorruptFile(f"{path} is truncated: {size:,} bytes instead of {start + end:,}. Copy or download it again")
    if math.prod(shape) == 0:  # an empty array cannot be mapped
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start + begin, shape)


def _content(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> Content:
    for name in ("vectors", "words"):
        if name not in tensors:
            raise CorruptFile(f'{path} is damaged: it has no "{name}". Copy or download it again')
    try:
        joined = tensors["words"].tobytes().decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{path} is damaged: its words are not UTF-8. Copy or download it again") from error
    words = joined.split("\n") if joined else []
    rows = {"words": len(words)} | {name: len(tensors[name]) for name in ("vectors", "counts") if name in tensors}
    if len(set(rows.values())) != 1:
        counts = ", ".join(f"{count:,} {name}" for name, count in rows.items())
        raise CorruptFile(f"{path} is damaged: it holds {counts}; these numbers should be equal")
    kept = {name: value for name, value in metadata.items() if name not in _OWN}
    return Content(words, tensors["vectors"], tensors.get("counts"), tensors.get("outputs"), kept)


def _checksum(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """As in `firth.files`: SHA-256 of metadata, names, types, shapes and bytes, sorted by name."""
    digest = hashlib.sha256(json.dumps(dict(sorted(metadata.items()))).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{_TYPES[_EXPECTED[name][0]][1]}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
