"""Named data sets on this machine: from the cache, from a mirror (FIRTH_DATA), or, on request, from their source.

A file that has its own name in the cache is complete and verified. An interrupted download stays in a hidden file, and the next
call requests only the rest; a file that fails verification is deleted at once.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import IO, Any, Literal, cast

from firth.errors import DataError
from firth.files import sha256_of
from firth.progress import Progress, silent
from firth.text import cache, sealed
from firth.text.data_set import DATA_SETS, PARTS, DataSet, File, Packing
from firth.text.datasets.transfer import fetched
from firth.text.limits import limits

State = Literal["cached", "mirror", "absent", "made"]

_CHUNK = 1 << 16
_MIRROR_SUFFIXES: tuple[tuple[str, Packing | Literal["xz"]], ...] = (("", "plain"), (".xz", "xz"), (".gz", "gz"))
_TRIES = 1000  # draws in a row that repeat an example


def get(name: str, progress: Progress = silent) -> Path:
    """The folder of a data set; files missing from the cache are copied from the mirror or downloaded."""
    return _bring(DATA_SETS[name], progress, may_download=True)


def local(name: str, progress: Progress = silent) -> Path:
    """Like `get`, but without the network: missing data are an error that names the command to get them."""
    return _bring(DATA_SETS[name], progress, may_download=False)


def parts(entry: DataSet, progress: Progress = silent) -> dict[str, Path]:
    """The files of training, validation and test, as far as the set has them."""
    if entry.parts is not None:
        return dict(entry.parts(progress))
    if entry.example is not None:
        return made_parts(entry)
    files: dict[str, str | None] = {"train": entry.train, "valid": entry.valid, "test": entry.test}
    folder = local(entry.name, progress)
    return {part: folder / file for part, file in files.items() if file}


def state(entry: DataSet) -> State:
    """The state of the set on disk, judged by names and sizes; nothing is read, written or downloaded."""
    if not entry.files:
        return "made"
    with contextlib.suppress(DataError):
        folder = _folder(entry)
        if all(_there(folder / file.name, file) for file in entry.files):
            return "cached"
    with contextlib.suppress(DataError):
        mirror = mirror_folder()
        if mirror is not None and all(_in_mirror(mirror / entry.name, file) for file in entry.files):
            return "mirror"
    return "absent"


def mirror_folder() -> Path | None:
    """$FIRTH_DATA: one folder per data set, files plain, .xz or .gz. If it is set, nothing is downloaded."""
    given = os.environ.get("FIRTH_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DataError(f"FIRTH_DATA is {given}, which is not a folder. Correct it, or unset it to download.")
    return folder


def _bring(entry: DataSet, progress: Progress, may_download: bool) -> Path:
    if entry.example or entry.parts:
        return next(iter(parts(entry, progress).values())).parent
    if not entry.files:
        raise DataError(f'firth generates {entry.name}, so it has no files. Set data.name = "{entry.name}" in a recipe.')
    folder = _folder(entry)
    missing = [file for file in entry.files if not _whole(folder / file.name, file)]
    if not missing:
        return folder
    mirror = mirror_folder()
    if mirror is None and not may_download:
        damaged = [file.name for file in missing if (folder / file.name).exists()]
        how = "damaged in the cache" if damaged else "not on this machine"
        raise DataError(f"{entry.name} is {how}. Download it: firth data get {entry.name}")
    for file in missing:
        if (folder / file.name).exists():
            sealed.tell_damaged(folder / file.name)
    with cache.storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    cache.sweep_abandoned(folder)
    if mirror is None:
        _from_source(entry, missing, folder, progress)
    else:
        _from_mirror(entry, missing, folder, mirror / entry.name, progress)
    return folder


def _folder(entry: DataSet) -> Path:
    return cache.cache_folder() / "data" / entry.name


def _there(path: Path, file: File) -> bool:
    try:
        return path.is_file() and file.size in (None, path.stat().st_size)
    except OSError:
        return False


def _whole(path: Path, file: File) -> bool:
    try:
        if not _there(path, file):
            return False
        expected = file.sha256 or sealed.noted(path)
        return expected is None or sealed.matches(path, expected, lambda: sha256_of(path) == expected)
    except OSError:
        return False


def _from_mirror(entry: DataSet, missing: Sequence[File], folder: Path, mirror: Path, progress: Progress) -> None:
    for done, file in enumerate(missing):
        progress(f"reading {entry.name} from the mirror", done, len(missing))
        mirrored = _in_mirror(mirror, file)
        if mirrored is None:
            raise DataError(f"the mirror has no {mirror / file.name} (also .xz or .gz). Put it there, or unset FIRTH_DATA.")
        source, packing = mirrored
        _install(source, packing, file, folder, str(source))
    progress(f"reading {entry.name} from the mirror", len(missing), len(missing))


def _in_mirror(mirror: Path, file: File) -> tuple[Path, Packing | Literal["xz"]] | None:
    for suffix, packing in _MIRROR_SUFFIXES:
        source = mirror / (file.name + suffix)
        if source.is_file():
            return source, packing
    return None


def _from_source(entry: DataSet, missing: Sequence[File], folder: Path, progress: Progress) -> None:
    by_url: dict[str, list[File]] = {}  # an archive may hold several files
    for file in missing:
        if file.url is None:
            raise DataError(
                f"{entry.name} cannot be downloaded: no server has this version of {file.name}. Set FIRTH_DATA to a folder with "
                f"{entry.name}/{file.name} (also .xz or .gz); see {entry.home}"
            )
        by_url.setdefault(file.url, []).append(file)
    for url, files in by_url.items():
        checked = all(file.sha256 for file in files)
        size = files[0].size if files[0].packing == "plain" else None
        with fetched(url, folder, checked=checked, size=size, progress=progress) as raw:
            for file in files:
                _install(raw, file.packing, file, folder, url)


def _install(source: Path, packing: Packing | Literal["xz"], file: File, folder: Path, origin: str) -> None:
    """Unpack `source` into the cache; the file gets its name only if size and checksum are correct."""
    digest, size, most = hashlib.sha256(), 0, limits()
    with cache.replacing(folder / file.name) as temporary:
        with temporary.open("wb") as out:
            for chunk in _content(source, packing, file.name, origin):
                size += len(chunk)
                digest.update(chunk)
                if file.size is not None and size > file.size:
                    break  # a small archive can hold a large file: do not fill the disk with it
                if file.size is None and packing != "plain":
                    most.check_size(source, source.stat().st_size, size)
                out.write(chunk)
        if file.size not in (None, size):
            more = "more" if size > (file.size or 0) else f"{size:,}"
            raise DataError(f"{origin} has the wrong size: expected {file.size:,} bytes of {file.name}, found {more}; not kept")
        if file.sha256 not in (None, digest.hexdigest()):
            raise DataError(
                f"{origin} has the wrong content: the sha256 of {file.name} is {digest.hexdigest()[:16]}…, expected "
                f"{(file.sha256 or '')[:16]}…; not kept"
            )
    sealed.seal(folder / file.name, digest.hexdigest())


def _content(source: Path, packing: Packing | Literal["xz"], member: str, origin: str) -> Iterator[bytes]:
    try:
        with contextlib.ExitStack() as stack:
            stream: IO[bytes]
            match packing:
                case "plain":
                    stream = stack.enter_context(source.open("rb"))
                case "gz":
                    stream = cast(IO[bytes], stack.enter_context(gzip.open(source)))
                case "xz":
                    stream = stack.enter_context(lzma.open(source))
                case "zip":
                    archive = stack.enter_context(zipfile.ZipFile(source))
                    stream = stack.enter_context(archive.open(member))
            while chunk := stream.read(_CHUNK):
                yield chunk
    except KeyError as error:
        raise DataError(f"{origin} has no {member} inside; not kept") from error
    except (
        gzip.BadGzipFile,
        zipfile.BadZipFile,
        lzma.LZMAError,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise DataError(f"{origin} is damaged or not a {packing} file ({error}); not kept") from error
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror or error}") from error


def made_parts(entry: DataSet) -> dict[str, Path]:
    """The files of training, validation and test of a set with a function for an example, drawn with fixed seeds. Another version
    of the code that makes them has a folder of its own."""
    version = hashlib.sha256(f"{entry.name} {DATA_SETS.origin(entry.name)} {entry.sizes}".encode()).hexdigest()[:16]
    suffix = "conll" if entry.holds == "tagged words" else "jsonl"
    folder = cache.cache_folder() / "made" / version
    paths: dict[str, Path] = {part: folder / f"{part}.{suffix}" for part in PARTS}
    if not all(sealed.whole(path) for path in paths.values()):
        seen: set[str] = set()
        for part, size in reversed(tuple(zip(PARTS, entry.sizes, strict=True))):  # what is held out is drawn first
            sealed.write_text(paths[part], "".join(_lines(entry, Random(f"{entry.name} {part}"), size, seen)))
    return paths


def _lines(entry: DataSet, draw: Random, size: int, seen: set[str]) -> Iterator[str]:
    assert entry.example is not None
    held_out, repeated = frozenset(seen), 0
    while size:
        line = _line(entry, entry.example(draw))
        if line not in held_out:
            seen.add(line)
            size, repeated = size - 1, 0
            yield line
        elif (repeated := repeated + 1) > _TRIES:
            raise DataError(f"the data set {entry.name} has too few different examples. Make its `sizes` smaller.")


def _line(entry: DataSet, example: str | Mapping[str, Any]) -> str:
    record = {"text": example} if isinstance(example, str) else example
    if entry.holds == "tagged words":
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(record["words"], record["tags"], strict=True)) + "\n"
    return json.dumps(record, ensure_ascii=False) + "\n"
