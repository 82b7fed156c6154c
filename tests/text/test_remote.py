from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from firth.errors import DataError
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.readers.corpus import find, scan
from firth.text.threads import read_ahead


@pytest.fixture
def store() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def local_and_remote(folder: Path, store: fsspec.AbstractFileSystem) -> None:
    records = "".join(json.dumps({"text": f"record {n}\nnaïve"}) + "\n" for n in range(30))
    contents = {"a.txt": b"the cat\r\nsat", "b/c.txt.gz": gzip.compress(b"on the mat\n" * 99), "d.jsonl": records.encode()}
    for name, content in {**contents, ".hidden/x.txt": b"no", "e.bin": b"\xff"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        store.pipe(f"/corpus/{name}", content)


def test_a_remote_folder_reads_like_a_local_one(tmp_path: Path, store: fsspec.AbstractFileSystem) -> None:
    local_and_remote(tmp_path, store)
    there, here = find("memory://corpus"), find(str(tmp_path))
    assert [path.name for path in there.files] == [path.name for path in here.files] == ["a.txt", "c.txt.gz", "d.jsonl"]
    assert scan(there) == scan(here)
    assert there.size == here.size
    assert str(there.files[0]) == "memory:///corpus/a.txt"
    kind = TokenizerConfig("word")
    remote, local = (prepare(DataConfig(path=place), kind) for place in ("memory://corpus", str(tmp_path)))
    assert remote.train.path == local.train.path  # the same text has the same tokens
    assert scan(find("memory://corpus/*.txt")) == scan(find(str(tmp_path / "a.txt")))


def test_a_remote_scan_is_remembered_until_the_file_changes(store: fsspec.AbstractFileSystem, cache: Path) -> None:
    store.pipe("/a.txt", b"first")
    assert scan(find("memory://a.txt")).characters == 5
    assert len(list(cache.glob("scan-*"))) == 1
    store.pipe("/a.txt", b"second")
    assert scan(find("memory://a.txt")).characters == 6


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("memory://nowhere", "there is no file at memory://nowhere"),
        ("memory://*.txt", r"there is no file at memory://\*.txt"),
        ("nothing://a", "cannot read nothing://a: Protocol not known"),
    ],
)
def test_what_is_not_there_is_named(store: fsspec.AbstractFileSystem, url: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        find(url)


def test_files_are_read_ahead_in_order() -> None:
    began: list[int] = []

    def items(source: int) -> Iterator[str]:
        began.append(source)
        yield from (f"{source}.{n}" for n in range(5))

    expected = [(source, f"{source}.{n}") for source in range(20) for n in range(5)]
    for at_once in (1, 3):
        assert list(read_ahead(range(20), items, at_once)) == expected
    before = threading.active_count()
    reading = read_ahead(range(20), items, 3)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_an_error_while_reading_ahead_comes_in_its_turn() -> None:
    def items(source: int) -> Iterator[int]:
        yield source
        if source == 2:
            raise DataError("damaged")

    read: list[int] = []
    with pytest.raises(DataError, match="damaged"):
        read.extend(item for _, item in read_ahead(range(9), items, 4))
    assert [item for _, item in zip(range(2), read_ahead(range(2), items, 4), strict=False)] == [(0, 0), (1, 1)]
