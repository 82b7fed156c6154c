"""Files and names that no user should give, but some do: each is refused in one line, or read within bounds.

A few of them in `make test`; all of them with `make attack`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from shell import Answer, Firth

from firth.errors import DataError
from firth.text.limits import FileLimits, limits
from firth.text.readers import corpus as corpora
from firth.text.readers.corpus import find
from firth.text.readers.file_decoding import chunks, lines

sys.path.append(str(Path(__file__).parent.parent))  # mutations.py
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="devices, pipes and limits of POSIX")
ATTACKS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "40"))
LONG = "a word " * 75  # 525 characters, which is no file name
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, 9),
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda data: _zstandard().ZstdCompressor(level=19).compress(data),
}


def _zstandard() -> object:
    return pytest.importorskip("zstandard", reason="needs the package zstandard")


def refused(answer: Answer, *parts: str) -> None:
    assert answer.code == 2, answer
    assert len(answer.err.strip().splitlines()) == 1, answer.err
    assert "internal error" not in answer.err
    assert len(answer.err) < 2100, len(answer.err)
    for part in parts:
        assert part in answer.err


QUICK = [
    ("score", "RUN", LONG),
    ("score", LONG, "RUN"),
    ("train", LONG, "--out", "OUT"),
    ("train", "hello", "--out", f"OUT/{LONG}"),
    ("train", "hello", "--out", "OUT", f"--data.path={LONG}"),
    ("describe", LONG),
    ("vectors", "neighbors", LONG, "a"),
    ("lab", LONG),
]
SLOW = [
    ("evaluate", "RUN", "--data", LONG),
    ("train", "hello", "--out", "OUT", f"--training.init={LONG}"),
    ("train", "hello", "--out", "OUT", f"--model.embedding.vectors={LONG}"),
    ("verify", LONG),
    ("vectors", "train", LONG.replace(" ", "_"), "--out", "OUT"),
    ("vectors", "contexts", LONG.replace(" ", "_"), "a"),
    ("tokenize", LONG, "a b"),
    ("serve", LONG),
    ("import", LONG, "--out", "OUT"),
    ("export", "RUN", LONG),
    ("search", LONG, "a"),
    ("chat", LONG),
    ("generate", LONG, "a"),
    ("tag", LONG),
    ("generate", "RUN", "the", "--lora", LONG),
    ("compare", "learning", LONG, LONG),
]


@pytest.mark.parametrize(
    "arguments",
    [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in SLOW)],
    ids=[" ".join(one).replace(LONG, "TEXT")[:40] for one in (*QUICK, *SLOW)],
)
def test_a_text_in_the_place_of_a_file_is_one_line(
    arguments: tuple[str, ...], firth: Firth, char_run: Path, tmp_path: Path
) -> None:
    filled = [one.replace("RUN", str(char_run)).replace("OUT", str(tmp_path / "out")) for one in arguments]
    refused(firth(*filled))


def test_score_says_how_to_give_a_text(firth: Firth, char_run: Path) -> None:
    refused(firth("score", char_run, LONG), "does not exist. Give the name of a file, or - to read the text from standard input.")


@pytest.mark.parametrize("place", ["/", "/proc", "/dev", "/proc/meminfo", "/dev/zero", "/dev/random", "SOCKET"])
def test_the_system_and_its_devices_are_no_text(place: str, firth: Firth, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        own = Path(os.path.relpath(tmp_path / "s"))  # a socket's name may be 107 bytes long
        try:
            server.bind(str(own))
        except OSError as error:
            pytest.skip(f"no socket with such a long name: {error}")
        given = str(own) if place == "SOCKET" else place
        answer = firth("train", "hello", "--out", tmp_path / "out", f"--data.path={given}")
    refused(answer, "is a " if place in ("/dev/zero", "/dev/random", "SOCKET") else "belongs to the system")
    assert not (tmp_path / "out").exists()


def test_a_folder_in_shared_memory_is_read() -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("this system has no /dev/shm to write to")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder, "a.txt").write_text("some text")
        assert len(find(folder).files) == 1


def test_a_device_is_no_file_of_lines() -> None:
    with pytest.raises(DataError, match=r"/dev/zero is a device, which has no end or no text\."):
        next(lines(Path("/dev/zero"), lambda done: None))


def test_a_pipe_that_nobody_writes_to_is_waited_for_with_a_word_and_then_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    told: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        told.append(what)
        if len(told) == 2:
            threading.Thread(target=(tmp_path / "pipe").write_text, args=("some text",)).start()

    corpus = find(str(tmp_path / "pipe"), progress=progress)
    assert "".join(piece.text for piece in corpus.pieces()) == "some text"
    assert told[0] == f"waiting for someone to write to {tmp_path / 'pipe'}"


def test_a_pipe_without_end_leaves_the_disk_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("firth.text.limits._RESERVE", 1 << 62)
    monkeypatch.setattr("firth.text.limits._PART", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\n" * (1 << 20))))
    with pytest.raises(DataError, match="the text of the pipe does not fit on the disk"):
        corpora.spool()
    assert not list((tmp_path / "cache").rglob(".writing-*"))


@pytest.mark.parametrize("packing", PACKERS)
def test_a_small_file_that_holds_a_large_one_is_refused_within_bounds(
    packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"bomb.txt.{packing}"
    monkeypatch.setenv("FIRTH_LIMITS", "small=1000000")
    path.write_bytes(PACKERS[packing](bytes(1 << 22)))
    given: list[int] = []
    with pytest.raises(DataError, match=r"times its own size\. If you trust it, set FIRTH_LIMITS=ratio=2500\."):
        given.extend(map(len, chunks(path, lambda done: None)))
    assert sum(given) < 2_000_000
    monkeypatch.setenv("FIRTH_LIMITS", "ratio=1000000")
    assert sum(map(len, chunks(path, lambda done: None))) == 1 << 22


def test_text_that_packs_well_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_LIMITS", "small=100000")
    text = "".join(f"2026-11-18 00:{n // 60 % 60:02d}:{n % 60:02d} the server is well\n" for n in range(20_000)).encode()
    (tmp_path / "log.txt.gz").write_bytes(gzip.compress(text))
    assert b"".join(chunks(tmp_path / "log.txt.gz", lambda done: None)) == text


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_LIMITS", "line=3000000")
    (tmp_path / "a.jsonl").write_text('{"text": "' + "a" * 5_000_000)
    with pytest.raises(DataError, match=r"a\.jsonl has a line of over 2 million characters\. Is it the right format\?"):
        list(lines(tmp_path / "a.jsonl", lambda done: None))


def test_a_parquet_whose_rows_share_one_long_text_is_refused_before_it_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs the package pyarrow")
    from pyarrow import parquet

    column = arrow.DictionaryArray.from_arrays(arrow.array([0] * 300, arrow.int32()), ["a" * 4_000_000])
    parquet.write_table(arrow.table({"text": column}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(DataError, match="times its own size"):
        list(find(str(tmp_path / "a.parquet")).pieces())


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text("a")
    monkeypatch.setenv("FIRTH_LIMITS", "files=20")
    with pytest.raises(DataError, match=r"holds more than 20 files of text\. Choose a smaller folder"):
        find(str(tmp_path))
    monkeypatch.setenv("FIRTH_LIMITS", "files=30")
    assert len(find(str(tmp_path)).files) == 30


def test_a_link_to_the_folder_itself_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert find(str(tmp_path)).files == (tmp_path / "a.txt",)


@pytest.mark.parametrize("given", ["ratio", "ratio=", "ratio=0", "ratio=-1", "ratio=1e9", "rat=5", "ratio=" + "9" * 30, ",", "="])
def test_limits_that_are_none_are_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.errors import ConfigError

    monkeypatch.setenv("FIRTH_LIMITS", given)
    with pytest.raises(ConfigError, match="FIRTH_LIMITS has"):
        limits()


def test_limits_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_LIMITS", "ratio=7, files=9")
    assert limits() == FileLimits(ratio=7, files=9)


# Images


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG that claims a size, whatever its data hold."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


IMAGES: dict[str, bytes | Callable[[], bytes]] = {
    "claims 12 gigapixels": png(120_000, 100_000),
    "claims 4 billion pixels a row": png(2**31 - 1, 2),
    "claims 144 megapixels": png(12_000, 12_000, bytes(1000)),
    "no pixels": png(0, 0),
    "few data": png(500, 500, b"abc"),
    "a text chunk of 100 MB": lambda: png(4, 4, bytes(100))[:33]
    + struct.pack(">I", 100_000) + b"zTXt" + b"a\0\0" + zlib.compress(bytes(100_000_000))[:99_997] + b"\0\0\0\0",
    "a TIFF of one huge strip": b"II*\0\x08\0\0\0\x02\0\0\x01\x04\0\x01\0\0\0\xff\xff\xff\x7f"
    b"\x01\x01\x04\0\x01\0\0\0\xff\xff\xff\x7f\0\0\0\0",
    "a GIF of 65535 × 65535": b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\x02L\x01\0;",
    "a BMP of 2^31 rows": b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 1000, -(2**31) + 1, 1, 24) + bytes(24),
    "a PPM of 10^12 pixels": b"P6 1000000 1000000 255\n",
    "a script": b"%!PS-Adobe-3.0 EPSF-3.0\n(whoami) system\n",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_is_a_bomb_or_no_image_is_refused_with_little_memory(name: str, tmp_path: Path) -> None:
    from firth.text.readers.images import read_image

    content = IMAGES[name]
    (tmp_path / "a.png").write_bytes(content if isinstance(content, bytes) else content())
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"table\.csv:2: .*a\.png"):
            read_image(tmp_path / "a.png", 8, "table.csv:2")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_an_image_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    from firth.text.readers.images import read_image

    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(10 << 30)  # without a byte on the disk
    with pytest.raises(DataError, match=r"has 10,240 MB; the limit is 256"):
        read_image(tmp_path / "a.png", 8)
    with pytest.raises(DataError, match="is empty"):
        read_image("/dev/zero", 8)


# Conversations

CHATS: dict[str, str] = {
    "no object": "[]",
    "a number": "5",
    "a long number": "1" * 10_000,
    "no messages": "{}",
    "a string": '{"messages": "hello"}',
    "of numbers": '{"messages": [1, 2]}',
    "no role": '{"messages": [{"content": "a"}]}',
    "role of a list": '{"messages": [{"role": ["user"], "content": "a"}]}',
    "unknown role": '{"messages": [{"role": "wizard", "content": "a"}]}',
    "content of a number": '{"messages": [{"role": "user", "content": 5}, {"role": "assistant", "content": "b"}]}',
    "content of parts": '{"messages": [{"role": "user", "content": [{"type": "text"}]}, {"role": "assistant", "content": "b"}]}',
    "half a surrogate": '{"messages": [{"role": "user", "content": "\\ud800"}, {"role": "assistant", "content": "b"}]}',
    "two users": '{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}',
    "ends with the user": '{"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}',
    "a deep one": '{"messages": ' + "[" * 50_000,
    "a deep content": '{"messages": [{"role": "user", "content": ' + '{"a":' * 50_000,
    "a zero byte": '{"messages": \0}',
    "a skill of a list": '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "skill": [1]}]}',
}


@pytest.mark.parametrize("name", CHATS)
def test_a_line_that_is_no_conversation_is_refused_by_its_number(name: str, tmp_path: Path) -> None:
    from firth.progress import silent
    from firth.text.readers.chat_files import read_conversations

    good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n{CHATS[name]}\n{good}\n")
    with pytest.raises(DataError, match=r"a\.jsonl:2\b") as caught:
        read_conversations(find(str(tmp_path / "a.jsonl")), silent)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("line", ['{"messages": null}', '{"messages": []}'])
def test_a_conversation_without_messages_is_skipped_with_its_number(line: str, tmp_path: Path) -> None:
    from firth.progress import silent
    from firth.text.readers.chat_files import read_conversations

    good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n{line}\n{good}\n")
    with pytest.warns(UserWarning, match=r"1 of 3 records .* skipped: .*a\.jsonl:2\b"):
        assert len(read_conversations(find(str(tmp_path / "a.jsonl")), silent)) == 2


# A run whose files are damaged, under every verb that reads it

PARTS = ("recipe.toml", "tokenizer.json", "model.safetensors", "log.jsonl", "format", "checkpoints/step-*")


def damaged_run(run: Path, number: int, place: Path) -> tuple[str, ...]:
    """A copy of the run with one damaged file, and the command that reads it."""
    from mutations import mutated

    draw = random.Random(f"run {number}")
    shutil.copytree(run, place)
    path = draw.choice(sorted(place.glob(draw.choice(PARTS))))
    path.write_bytes(mutated(path.read_bytes(), path.name, draw))
    text = place.with_suffix(".txt")
    text.write_text("the list is empty.\n")
    commands = (
        ("generate", str(place), "the", "--tokens", "5"),
        ("score", str(place), str(text)),
        ("describe", str(place)),
        ("evaluate", str(place)),
        ("train", str(place / "recipe.toml"), "--out", str(place), "--resume"),
    )
    return draw.choice(commands)


def assert_one_line(answer: Answer, what: object) -> None:
    """It ends well, perhaps with notes about what it did instead, or in one line."""
    said = [line for line in answer.err.splitlines() if line.strip()]
    assert answer.code in (0, 1, 2), (what, answer)
    assert "internal error" not in answer.err, (what, answer.err)
    if answer.code:
        assert len(said) == 1, (what, answer.err)


@pytest.mark.parametrize("number", [1, 23])
def test_a_damaged_run_is_one_line(number: int, firth: Firth, char_run: Path, tmp_path: Path) -> None:
    assert_one_line(firth(*damaged_run(char_run, number, tmp_path / "run")), number)


@pytest.mark.long
def test_damaged_runs_are_one_line(firth: Firth, char_run: Path, tmp_path: Path) -> None:
    for number in range(ATTACKS):
        assert_one_line(firth(*damaged_run(char_run, number, tmp_path / f"run-{number}")), number)
        shutil.rmtree(tmp_path / f"run-{number}")
    print(f"damaged runs: {ATTACKS}, none with more than one line")
