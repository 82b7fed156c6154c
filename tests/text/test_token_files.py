from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.text import Piece, TokenFile, Tokenizer, TokenizerConfig, cache_folder, encode_file
from firth.text.batches import token_files as tokens
from firth.text.cache import sweep_abandoned

TEXT = "the cat sat on the mat\n" * 50


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
    monkeypatch.setattr(tokens, "_written", lambda *given: pytest.fail("made again"))
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
        "import sys; from firth.text import *\n"
        "for _ in range(20):\n"
        "    for old in cache_folder().glob('tokens-*'): old.unlink(missing_ok=True)\n"
        "    try: p = prepare(DataConfig(path=sys.argv[1]), TokenizerConfig('char'))\n"
        "    except Exception as error: assert 'vanished' in str(error), error\n"
        "    else: assert (p.train.count, int(p.train.ids[0])) == (414000, 10), (p.train.count, int(p.train.ids[0]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(source)], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for run in runs:
        _, complaint = run.communicate(timeout=60)
        assert (run.returncode, complaint) == (0, "")


@pytest.mark.parametrize("kind", ["char", "word"])
def test_memory_does_not_grow_with_the_text(tmp_path: Path, kind: str) -> None:
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
    small, large = peak(40_000), peak(160_000)  # 2.6 and 10.4 MB
    assert large < 1.2 * small
