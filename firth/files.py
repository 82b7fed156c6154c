"""Atomic writes and checksums.

firth writes files through `replacing`: write under a temporary name in the same folder, flush to disk, rename, flush the
folder. A reader therefore sees either the old file or the new one, even after a crash. Tensor files store a SHA-256 of their
content in their header.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.errors import CorruptFile, DataError, RunError

if TYPE_CHECKING:
    from torch import Tensor

TEMPORARY = ".writing-"  # prefix of temporary files
Place = str | os.PathLike[str]


def is_file(path: Place) -> bool:
    """Like Path.is_file, but False instead of an error for a string that cannot be a path, for example one that is too long."""
    return os.path.isfile(path)


def is_folder(path: Place) -> bool:
    """Like Path.is_dir, but never an error; see `is_file`."""
    return os.path.isdir(path)


def exists(path: Place) -> bool:
    """Like Path.exists, but never an error; see `is_file`."""
    return os.path.exists(path)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to, which durably replaces `path` on exit. On an error it is removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=TEMPORARY, suffix=path.suffix, dir=path.parent)
        os.close(descriptor)
    except OSError as error:
        raise _cannot_write(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        commit(temporary, path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # the error has been raised already; `sweep` removes what remains
            temporary.unlink(missing_ok=True)


def commit(temporary: Path, path: Path) -> None:
    """Durably rename a finished file."""
    flush(temporary)
    os.replace(temporary, path)
    flush(path.parent)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """For operations that cannot use `replacing` (append, remove): raises the same one-line error."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sweep(folder: Path) -> None:
    """Remove temporary files, and folders, that a killed process left in `folder`."""
    for left_over in folder.glob(TEMPORARY + "*"):
        with writing(left_over):
            shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_BLOCK, _BLOCKS = 1 << 20, 256  # what `fingerprint` reads of files that are larger than all blocks together


def fingerprint(paths: Sequence[Path]) -> dict[str, Any]:
    """The number, the bytes and the SHA-256 of files, of several as of one that holds them in this order.

    Of more than 256 MiB only blocks are read, so that it takes about a second at most: "sha256_of_samples" is the SHA-256 of
    the bytes in decimal, then of 256 blocks of 1 MiB at equal distances, the first and the last included."""
    sizes = [path.stat().st_size for path in paths]
    total, digest = sum(sizes), hashlib.sha256()
    whole = total <= _BLOCK * _BLOCKS
    if whole:
        spans = [(0, total)]
    else:
        digest.update(str(total).encode())
        spans = [(block * (total - _BLOCK) // (_BLOCKS - 1), _BLOCK) for block in range(_BLOCKS)]
    for start, length in spans:
        for chunk in _span(paths, sizes, start, length):
            digest.update(chunk)
    return {"files": len(paths), "bytes": total, "sha256" if whole else "sha256_of_samples": digest.hexdigest()}


def _span(paths: Sequence[Path], sizes: Sequence[int], start: int, length: int) -> Iterator[bytes]:
    """The bytes from `start` on of files one after the other, in chunks."""
    for path, size in zip(paths, sizes, strict=True):
        inside = min(size - start, length)
        if inside > 0:
            with path.open("rb") as file:
                file.seek(start)
                length -= inside
                while inside and (chunk := file.read(min(inside, _BLOCK))):
                    inside -= len(chunk)
                    yield chunk
        start = max(0, start - size)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whose header holds `metadata` and a checksum of the rest of the file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(plain, temporary, metadata={**metadata, "sha256": _checksum(plain, metadata)})
        except SafetensorError as error:  # safetensors wraps "disk full" in its own exception
            raise OSError(str(error)) from error


def tensor_shapes(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """The shapes of the tensors in a file, and its metadata, from its header alone; needs no torch."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (safe_open is no dict)
            return shapes, dict(file.metadata() or {})
    except (SafetensorError, ValueError) as error:
        raise CorruptFile(f"{path} is truncated or damaged: {error}") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file written by `save_tensors`; raises CorruptFile if a single bit has changed."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise RunError(f"{path} does not exist")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is not a dict)
    except (SafetensorError, ValueError) as error:
        raise CorruptFile(f"{path} is truncated or damaged: {error}") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    expected = metadata.pop("sha256", None)
    if expected != _checksum(tensors, metadata):
        raise CorruptFile(f"{path} is damaged: its checksum does not match. Copy or download it again")
    return tensors, metadata


def expect_finite(tensor: Tensor, name: str, where: str) -> None:
    """Refuse weights with NaN or an infinity. A sum is finite only if every term is, and it reads the values once without a copy;
    only where it is not, which may be an overflow, they are counted."""
    import torch

    if not tensor.is_floating_point() or torch.isfinite(tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32))):
        return
    count = int((~tensor.isfinite()).sum())
    if count:
        raise DataError(
            f"{count:,} of {tensor.numel():,} numbers of {name} in {where} are not finite (NaN or infinite). Use other weights."
        )


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 of metadata, names, types, shapes and bytes, sorted by name."""
    import torch

    digest = hashlib.sha256(json.dumps(dict(sorted(metadata.items()))).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        flat = tensor.reshape(-1)
        if flat.stride(-1) != 1:  # of a single number, where any stride is right
            flat = flat.clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _cannot_write(path: Path, error: OSError) -> RunError:
    return RunError(f"cannot write {path}: {error.strerror or error}. Free some space or choose another folder")


def flush(path: Path) -> None:
    """fsync a file, or a folder, so that a rename in it survives a power failure."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder; its rename is journalled
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
