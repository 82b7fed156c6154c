from __future__ import annotations

import functools
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import zstandard

from firth.errors import DataError
from firth.text.readers.corpus import find, scan
from firth.text.readers.file_decoding import CHUNK


def text_of(path: Path) -> str:
    return "".join(piece.text for piece in find(str(path)).pieces())


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        text_of(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@functools.cache
def long_text(seed: int = 0) -> str:
    numbers = random.Random(seed)
    return "".join(f"é {numbers.random()}\n" for _ in range(100_000))


@functools.cache
def packed_text() -> bytes:
    return zstandard.compress(long_text().encode())


def test_zstd_is_recognised_by_content_and_by_name(tmp_path: Path) -> None:
    packed = zstandard.compress("één\ntwee".encode())
    for name in ("a.txt", "a.txt.zst"):
        (tmp_path / name).write_bytes(packed)
        assert text_of(tmp_path / name) == "één\ntwee"
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(b'{"text": "one"}\n{"text": "two"}\n'))
    assert [piece.text for piece in find(str(tmp_path / "b.jsonl.zst")).pieces()] == ["one", "two"]
    (tmp_path / "plain.txt").write_text("één\ntwee", encoding="utf-8")
    assert scan(find(str(tmp_path / "a.txt.zst"))) == scan(find(str(tmp_path / "plain.txt")))
    assert len(find(str(tmp_path)).files) == 4


def test_frames_one_after_the_other_are_one_text(tmp_path: Path) -> None:
    parts = [long_text(1), "", "short\n", long_text(2)]
    (tmp_path / "a.txt.zst").write_bytes(b"".join(zstandard.compress(part.encode()) for part in parts))
    assert text_of(tmp_path / "a.txt.zst") == "".join(parts)


def test_a_large_zstd_is_read_in_parts(tmp_path: Path) -> None:
    text = long_text()
    (tmp_path / "a.txt.zst").write_bytes(packed_text())
    size = (tmp_path / "a.txt.zst").stat().st_size
    seen: list[int] = []
    assert "".join(piece.text for piece in find(str(tmp_path / "a.txt.zst")).pieces(seen.append)) == text
    assert seen == sorted(seen)
    assert len(seen) > len(text) // CHUNK
    assert seen[-1] == size


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
@pytest.mark.parametrize("frames", [1, 2])
def test_a_truncated_zstd_is_refused(tmp_path: Path, share: float, frames: int) -> None:
    whole = packed_text()
    (tmp_path / "a.txt.zst").write_bytes(whole * (frames - 1) + whole[: max(6, int(len(whole) * share))])
    assert "damaged or truncated compressed file (it ends inside a zstd frame)" in refusal(tmp_path / "a.txt.zst")


def test_a_damaged_zstd_is_refused(tmp_path: Path) -> None:
    whole = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(long_text().encode()))
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "a.txt.zst").write_bytes(whole)
    assert "damaged or truncated compressed file" in refusal(tmp_path / "a.txt.zst")
    (tmp_path / "b.txt.zst").write_bytes(zstandard.compress(b"fine") + b"and then no frame")
    assert "damaged or truncated compressed file" in refusal(tmp_path / "b.txt.zst")


def test_without_a_zstd_the_error_is_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(b"fine"))
    for name in ("compression", "compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert refusal(tmp_path / "a.txt.zst").endswith("pip install zstandard")


def test_the_standard_library_is_preferred_where_it_has_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(b"fine"))
    standard = ModuleType("compression.zstd")
    made: list[object] = []

    def decompressor() -> object:
        made.append(zstandard.ZstdDecompressor().decompressobj())
        return made[-1]

    standard.ZstdDecompressor, standard.ZstdError = decompressor, zstandard.ZstdError  # type: ignore[attr-defined]
    package = ModuleType("compression")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "compression", package)
    monkeypatch.setitem(sys.modules, "compression.zstd", standard)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert text_of(tmp_path / "a.txt.zst") == "fine"
    assert made
