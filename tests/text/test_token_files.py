from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.text.batches import token_files as tokens
from firth.text.batches.token_files import TokenFile
from firth.text.cache import cache_folder, sweep_abandoned
from firth.text.config import TokenizerConfig
from firth.text.data.running_text import encode_file
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

TEXT = "the cat sat on the mat\n" * 50
MANIFEST: dict[str, bytes] = {}  # of the first test of several that must agree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TokenizerConfig("char"), [Piece(TEXT, True)], 1)


def test_the_file_holds_raw_little_endian_ids_and_a_header_beside_it(source: Path, tokenizer: Tokenizer) -> None:
    made = encode_file(source, tokenizer)
    assert made.path.parent == cache_folder()
    assert np.frombuffer(made.path.read_bytes(), "<u2").tolist() == tokenizer.encode(TEXT).tolist() == made.ids.tolist()
    assert isinstance(made.ids, np.memmap)
    assert not made.ids.flags.writeable
    assert (made.count, made.characters) == (len(TEXT), len(TEXT))
    header = json.loads(made.path.with_suffix(".json").read_text())
    assert (header["count"], header["dtype"], header["characters"]) == (len(TEXT), "uint16", len(TEXT))
    assert header["tokenizer_sha256"] == tokenizer.sha256


def test_a_file_made_before_is_reopened(source: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode_file(source, tokenizer)
    monkeypatch.setattr(tokens._Build, "write", lambda *given: pytest.fail("made again"))
    assert encode_file(source, tokenizer).path == first.path
    other = Tokenizer.train(TokenizerConfig("char"), [Piece(TEXT + "!", True)], 1)
    with pytest.raises(pytest.fail.Exception):
        encode_file(source, other)


def damaged(made: TokenFile) -> list[tuple[Path, bytes]]:
    header = made.path.with_suffix(".json")
    whole, facts = made.path.read_bytes(), header.read_bytes()
    return [
        (made.path, whole[:-1]),
        (made.path, whole + b"\0\0"),
        (made.path, b""),
        (header, b""),
        (header, b"[]"),
        (header, facts.replace(b"uint16", b"uint32")),
    ]


def test_a_file_that_does_not_match_its_header_is_made_again(source: Path, tokenizer: Tokenizer) -> None:
    made = encode_file(source, tokenizer)
    expected, header = made.ids.tolist(), made.path.with_suffix(".json").read_bytes()
    for path, content in damaged(made):
        path.unlink()  # not overwritten: the old one is still mapped
        path.write_bytes(content)
        assert encode_file(source, tokenizer).ids.tolist() == expected
        assert made.path.with_suffix(".json").read_bytes() == header


def test_a_failed_write_leaves_nothing_and_names_the_cache(
    source: Path, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"No space left on device.*FIRTH_CACHE"):
        encode_file(source, tokenizer)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_made_names_the_variable(
    source: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(source / "below a file"))
    with pytest.raises(DataError, match="Set FIRTH_CACHE to a folder"):
        encode_file(source, tokenizer)


def test_text_that_the_tokenizer_cannot_spell_leaves_nothing_behind(source: Path, cache: Path) -> None:
    with pytest.raises(DataError, match="not in the vocabulary"):
        encode_file(source, Tokenizer.train(TokenizerConfig("char"), [Piece("the", True)], 1))
    assert list(cache.iterdir()) == []


def test_only_abandoned_temporaries_are_swept(cache: Path) -> None:
    for name, age in ((TEMPORARY + "mine", 0), (TEMPORARY + "dead", 3 * 86400), ("tokens-x.bin", 3 * 86400)):
        (cache / name).touch()
        stamp = (cache / name).stat().st_mtime - age
        os.utime(cache / name, (stamp, stamp))
    sweep_abandoned(cache)
    assert {path.name for path in cache.iterdir()} == {TEMPORARY + "mine", "tokens-x.bin"}


def test_processes_that_make_the_same_file_do_not_disturb_one_another(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text(TEXT * 400)
    program = (
        "import sys; from firth.text.cache import cache_folder; from firth.text.data.running_text import *\n"
        "for _ in range(8):\n"
        "    for old in cache_folder().glob('tokens-*.[bj]*'): old.unlink(missing_ok=True)\n"
        "    try: p = prepare(DataConfig(path=sys.argv[1]), TokenizerConfig('char'))\n"
        "    except Exception as error: assert 'vanished' in str(error), error\n"
        "    else: assert (p.train.count, int(p.train.ids[0])) == (414000, 10), (p.train.count, int(p.train.ids[0]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(source)], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for run in runs:
        _, complaint = run.communicate(timeout=60)
        assert (run.returncode, complaint) == (0, "")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SHARD", 200)
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 50)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 70)


def shards_of(made: TokenFile) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(made.path.with_suffix(".json").read_text())["shards"]
    return listed


def test_the_manifest_lists_shards_with_their_sizes_and_hashes(source: Path, tokenizer: Tokenizer, small_shards: None) -> None:
    made = encode_file(source, tokenizer)
    shards, at = shards_of(made), 0
    assert len(shards) > 3
    for shard in shards:
        stored = made.path.read_bytes()[2 * at : 2 * (at + shard["tokens"])]
        assert hashlib.blake2b(stored, digest_size=16).hexdigest() == shard["blake2b"]
        at += shard["tokens"]
    assert at == made.count == sum(shard["characters"] for shard in shards)


@pytest.mark.parametrize("workers", ["1", "2", "5"])
def test_the_number_of_workers_and_shards_changes_nothing(
    source: Path, tokenizer: Tokenizer, small_shards: None, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("FIRTH_WORKERS", workers)
    made = encode_file(source, tokenizer)
    assert made.ids.tolist() == tokenizer.encode(TEXT).tolist()
    manifest = made.path.with_suffix(".json").read_bytes()
    assert manifest == MANIFEST.setdefault(source.name, manifest)


def test_a_flipped_bit_is_noticed_and_only_its_shard_encoded_again(
    source: Path, tokenizer: Tokenizer, small_shards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = encode_file(source, tokenizer)
    whole, expected = made.path.read_bytes(), made.ids.tolist()
    shard = shards_of(made)[1]
    monkeypatch.setattr(tokens._Build, "write", lambda *given: pytest.fail("made again as a whole"))
    encoded: list[int] = []
    monkeypatch.setattr(tokenizer, "encode_pieces", lambda batch, real=tokenizer.encode_pieces: counted(real(batch), encoded))
    made.path.unlink()  # not overwritten: the old one is still mapped
    made.path.write_bytes(whole[:600] + bytes([whole[600] ^ 4]) + whole[601:])
    with pytest.warns(UserWarning, match=r"tokens-\w+\.bin in the cache is damaged"):
        assert encode_file(source, tokenizer).ids.tolist() == expected
    assert sum(encoded) == shard["tokens"]
    assert made.path.read_bytes() == whole


def counted(ids: Ids, into: list[int]) -> Ids:
    into.append(len(ids))
    return ids


@pytest.mark.parametrize("damage", ["", "a bit of the tokens", "half a line of the journal", "no journal"])
def test_a_build_that_was_killed_goes_on_after_its_last_complete_shard(
    source: Path, tokenizer: Tokenizer, cache: Path, small_shards: None, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    killed: list[int] = []

    def dying(batch: list[Piece], real: Any = tokenizer.encode_pieces) -> Ids:
        if sum(killed) > 700:
            raise KeyboardInterrupt
        return counted(real(batch), killed)

    monkeypatch.setenv("FIRTH_WORKERS", "1")
    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "encode_pieces", dying)
        with pytest.raises(KeyboardInterrupt):
            encode_file(source, tokenizer)
    (partial,), (journal,) = cache.glob(f"{TEMPORARY}*.bin"), cache.glob(f"{TEMPORARY}*.jsonl")
    shards = [json.loads(line) for line in journal.read_text().splitlines()]
    complete = sum(shard["tokens"] for shard in shards)
    assert complete > 200
    match damage:
        case "":
            partial.write_bytes(partial.read_bytes() + b"more")  # of a shard that was not complete
        case "a bit of the tokens":
            partial.write_bytes(partial.read_bytes()[:-1] + b"\xff")
            complete -= shards[-1]["tokens"]
        case "half a line of the journal":
            journal.write_text(journal.read_text()[:-9])
            complete -= shards[-1]["tokens"]
        case _:
            journal.unlink()
            complete = 0
    encoded: list[int] = []
    monkeypatch.setattr(tokenizer, "encode_pieces", lambda batch, real=tokenizer.encode_pieces: counted(real(batch), encoded))
    assert encode_file(source, tokenizer).ids.tolist() == tokenizer.encode(TEXT).tolist()
    assert sum(encoded) == len(TEXT) - complete
    assert not list(cache.glob(f"{TEMPORARY}*"))
    assert not list(cache.glob("*.lock"))


@pytest.mark.long
def test_nothing_is_lost_when_builds_are_killed(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("".join(f"the cat {n} sat on mat {n % 97}\n" for n in range(400_000)))
    os.utime(source, (1, 1))
    program = (
        "import sys; from firth.text.batches import token_files; from firth.text.data.running_text import *\n"
        "token_files._SHARD = 1 << 18; token_files._MUCH = 1 << 40\n"
        "words = Tokenizer.train(TokenizerConfig('word', vocab=500), [Piece('the cat 1 sat on mat 2', True)], 1)\n"
        "print('begun', flush=True); made = encode_file(sys.argv[1], words); print(made.ids.sum(), made.count)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", program, str(source)]
    generator, kills, most = np.random.default_rng(0), 0, 0
    while True:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == "begun\n"
            try:
                answer, _ = run.communicate(
                    timeout=float(generator.uniform(0.02, 0.1 + 0.02 * kills))
                    if kills < 12 or (not most and kills < 60)
                    else None
                )
                break
            except subprocess.TimeoutExpired:
                run.kill()
                kills += 1
        sizes = [path.stat().st_size for path in cache.glob(f"{TEMPORARY}*.bin")]
        most = max([most, *sizes])
    assert kills > 2
    assert most > 0
    (manifest,) = cache.glob("tokens-*.json")
    (made,) = cache.glob("tokens-*.bin")
    kept = made.read_bytes(), manifest.read_bytes()
    for path in cache.iterdir():
        if path.is_file():
            path.unlink()
    undisturbed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert undisturbed.splitlines()[1] == answer.strip()
    assert (made.read_bytes(), manifest.read_bytes()) == kept


def test_one_process_builds_and_another_waits_for_it(source: Path, tokenizer: Tokenizer, cache: Path) -> None:
    program = "import sys, time; from pathlib import Path; from firth.text.cache import locked\n"
    program += "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    made = encode_file(source, tokenizer)
    made.path.unlink()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    lock = made.path.with_suffix(".lock")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], env=environment, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        told: list[str] = []

        def progress(what: str, done: int, total: int) -> None:
            told.append(what)
            if what == "waiting for another process":
                other.kill()  # a lock ends with its process

        assert encode_file(source, tokenizer, progress=progress).count == len(TEXT)
        assert "waiting for another process" in told
    assert not lock.exists()


@pytest.mark.parametrize("kind", ["char", "word"])
def test_memory_does_not_grow_with_the_text(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(lines: int) -> int:
        path = tmp_path / f"{lines}.txt"
        path.write_text("the cat sat on the mat and went to sleep there until the evening\n" * lines)
        tracemalloc.start()
        made = encode_file(path, tokenizer)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert made.characters == path.stat().st_size
        return used

    tokenizer = Tokenizer.train(
        TokenizerConfig(kind), [Piece("the cat sat on the mat and went to sleep until evening r\n", True)], 1
    )  # type: ignore[arg-type]
    tokenizer.piece_encoders()()([Piece("the", True)])  # compiles
    monkeypatch.setattr(tokens, "_SHARD", 1 << 18)
    monkeypatch.setattr(tokens, "_MUCH", 1)
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 1 << 17)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 1 << 17)
    small, large = peak(40_000), peak(160_000)  # 2.6 and 10.4 MB
    assert large < 1.2 * small
