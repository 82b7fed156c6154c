from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import DataError
from firth.text.readers import corpus as corpus_module
from firth.text.readers.corpus import Corpus, find, inline, part, scan, spool
from firth.text.readers.pieces import PIECE, Piece, pieces_of_text, slices


def documents(corpus: Corpus) -> list[str]:
    closed, open_document = [], ""
    for piece in corpus.pieces():
        open_document += piece.text
        if piece.ends_document:
            closed.append(open_document)
            open_document = ""
    assert open_document == ""
    return closed


def refusal(path: Path | str, **settings: str) -> str:
    with pytest.raises(DataError) as caught:
        list(find(str(path), **settings).pieces())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_compression_is_recognised_by_content(tmp_path: Path, pack: type[bytes]) -> None:
    (tmp_path / "a.txt").write_bytes(pack("één\ntwee".encode()))
    assert documents(find(str(tmp_path / "a.txt"))) == ["één\ntwee"]


def test_the_format_follows_from_the_name_below_the_compression(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "one"}\n\n{"text": "two"}\n'))
    (tmp_path / "b.csv").write_text('text,label\n"a, ""b""\nc",1\nd,2\n')
    (tmp_path / "c.tsv").write_text('label\ttext\n1\t"quoted\n0\tplain\n')
    assert documents(find(str(tmp_path / "a.jsonl.gz"))) == ["one", "two"]
    assert documents(find(str(tmp_path / "b.csv"))) == ['a, "b"\nc', "d"]
    assert documents(find(str(tmp_path / "c.tsv"))) == ['"quoted', "plain"]


def test_a_folder_is_read_recursively_in_sorted_order_and_skips_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.md", "picture.png", ".hidden.txt"):
        (tmp_path / name).write_text(name)
    assert documents(find(str(tmp_path))) == ["a.txt", "b.txt", "sub/c.md"]
    assert documents(find(str(tmp_path), format="txt")) == ["a.txt", "b.txt", "picture.png", "sub/c.md"]
    assert documents(find(str(tmp_path / "**/*.md"))) == ["sub/c.md"]


def test_a_byte_order_mark_is_dropped_and_windows_line_ends_become_newlines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\r")
    assert documents(find(str(tmp_path / "a.txt"))) == ["one\ntwo\rthree\r"]


def test_line_ends_and_characters_that_straddle_two_chunks_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeffé\r\n€\r\r\n𝄞\n" * 5
    (tmp_path / "a.txt").write_bytes(text.encode())
    for size in range(1, 9):
        monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", size)
        assert "".join(documents(find(str(tmp_path / "a.txt")))) == text.removeprefix("\ufeff").replace("\r\n", "\n")


@given(st.text(alphabet="ab \n", max_size=200), st.integers(1, 20))
def test_slices_rebuild_the_text_and_end_at_newlines_where_they_can(text: str, limit: int) -> None:
    parts = list(slices(text, limit))
    assert "".join(parts) == text
    assert all(0 < len(part) <= limit for part in parts)
    for left, right in itertools.pairwise(parts):
        if "\n" in left:
            assert left.endswith("\n")
        elif " " in left.strip(" "):
            assert right.startswith(" ")
            assert not left.endswith(" ")


def test_a_long_text_comes_in_pieces_that_end_at_newlines(tmp_path: Path) -> None:
    text = "".join(f"line {i}\n" for i in range(400_000))
    (tmp_path / "a.txt").write_text(text)
    pieces = list(find(str(tmp_path / "a.txt")).pieces())
    assert "".join(piece.text for piece in pieces) == text
    assert len(pieces) > 3
    assert all(len(piece.text) <= PIECE and piece.text.endswith("\n") for piece in pieces)
    assert [piece.ends_document for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert list(pieces_of_text(text)) == pieces


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=9), max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_a_part_is_the_slice_of_the_whole(texts: list[str], start: int, stop: int) -> None:
    pieces = list(part((Piece(text, True) for text in texts), start, stop))
    assert "".join(piece.text for piece in pieces) == "".join(texts)[start : max(start, stop)]
    ends = [sum(map(len, texts[: i + 1])) for i in range(len(texts))]
    assert sum(piece.ends_document for piece in pieces) == sum(start < end <= stop for end in ends)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "shakespeare.txt").write_text("x")
    assert 'Did you mean "shakespeare.txt"?' in refusal(tmp_path / "shakespear.txt")
    assert "does not exist" in refusal(tmp_path / "nowhere" / "a.txt")
    assert "no file matches" in refusal(tmp_path / "*.csv")
    assert "no text in" in refusal(os.path.dirname(__file__))


@pytest.mark.parametrize("before", [0, 1, (1 << 20) - 1, 1 << 20, 3_000_000])
def test_undecodable_bytes_are_named_with_their_offset(tmp_path: Path, before: int) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * before + b"\xe9 caf")
    message = refusal(tmp_path / "a.txt")
    assert f"byte 0xe9 at offset {before:,}" in message
    assert "iconv -f latin1" in message


def test_a_character_cut_off_at_the_end_is_undecodable_and_utf16_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("aé".encode()[:-1])
    assert "byte 0xc3 at offset 1" in refusal(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes("hello".encode("utf-16"))
    assert "iconv -f utf-16" in refusal(tmp_path / "b.txt")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_truncated_archive_is_refused(tmp_path: Path, pack: type[bytes]) -> None:
    whole = pack(os.urandom(5000).hex().encode())
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    assert "damaged or truncated" in refusal(tmp_path / "a.txt.gz")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "a.jsonl:2 is not JSON"),
        ('{"title": "x", "body": "y"}', 'a.jsonl:2 has no column "text"; it has: title, body'),
        ("[1]", "a.jsonl:2 is not a JSON object"),
        ('{"text": [5]}', '"text" is a list; expected a string'),
        ('{"text": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n' + line + "\n")
    assert message in refusal(tmp_path / "a.jsonl")


def test_a_table_without_the_column_lists_the_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("txt,label\nx,1\n")
    message = refusal(tmp_path / "a.csv")
    assert 'no column "text"; it has: txt, label' in message
    assert 'Did you mean "txt"?' in message
    (tmp_path / "b.csv").write_text("label,text\n1,fine\n2\n")
    assert "b.csv:3 has 1 cell;" in refusal(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text('text\n"open\nand never closed\n')
    assert "not valid csv" in refusal(tmp_path / "c.csv")


def test_a_table_cell_may_be_larger_than_the_csv_module_allows_by_default(tmp_path: Path) -> None:
    cell = "word, " * 100_000
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], [cell]])
    assert documents(find(str(tmp_path / "a.csv"))) == [cell]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match="is empty; expected some text"):
        scan(find(str(tmp_path / name)))


def test_a_scan_knows_the_text_whatever_the_file_looks_like(tmp_path: Path) -> None:
    text = "één\n𝄞 twee\n"
    (tmp_path / "plain.txt").write_bytes(text.encode())
    (tmp_path / "packed.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "windows.txt").write_bytes(text.replace("\n", "\r\n").encode())
    scans = [scan(find(str(tmp_path / name))) for name in ("plain.txt", "packed.txt.xz", "windows.txt")]
    scans.append(scan(inline(text)))
    assert scans == [scans[0]] * 4
    assert scans[0].sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (scans[0].characters, scans[0].documents) == (len(text), 1)
    assert scans[0].counts == {character: text.count(character) for character in text}


def test_the_checksum_sees_where_documents_end(tmp_path: Path) -> None:
    for name, records in (("a", ["x", "yz"]), ("b", ["xy", "z"])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in records))
    a, b = (scan(find(str(tmp_path / name))) for name in ("a.jsonl", "b.jsonl"))
    assert (a.documents, a.characters, a.counts) == (b.documents, b.characters, b.counts)
    assert a.sha256 != b.sha256


def test_a_scan_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("first")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    known = scan(find(str(path)))
    real = corpus_module._occurrences
    monkeypatch.setattr(corpus_module, "_occurrences", lambda *given: pytest.fail("read again"))
    assert scan(find(str(path))) == known
    monkeypatch.setattr(corpus_module, "_occurrences", real)
    path.write_text("other")
    os.utime(path, (1_000_000_001, 1_000_000_001))
    assert scan(find(str(path))).counts == dict.fromkeys("other", 1)


def test_a_damaged_scan_or_one_with_another_hash_is_made_again(tmp_path: Path, cache: Path) -> None:
    """A run records the hash of its text: it must not come from a damaged file."""
    path = tmp_path / "a.txt"
    path.write_text("first")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    known = scan(find(str(path)))
    (remembered,) = cache.glob("scan-*.json")
    another = remembered.read_text().replace(known.sha256, known.sha256[::-1])
    for damage in ("", "{", "[]", '{"counts": {}}', '{"counts": []}', another):
        remembered.write_text(damage)
        with pytest.warns(UserWarning, match="in the cache is damaged"):
            assert scan(find(str(path))) == known


def test_a_file_written_a_moment_ago_is_not_remembered(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    scan(find(str(tmp_path / "a.txt")))
    assert not list(cache.glob("scan-*"))


def test_standard_input_can_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress("één\n".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    corpus = spool()
    assert documents(corpus) == documents(corpus) == ["één\n"]


def test_progress_counts_the_bytes_on_disk(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x" * 2_000_000)
    seen: list[tuple[str, int, int]] = []
    scan(find(str(tmp_path)), lambda what, done, total: seen.append((what, done, total)))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("reading", 4_000_000, 4_000_000)
