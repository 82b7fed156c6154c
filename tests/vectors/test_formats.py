"""Files of the other tools: read, written, the same bits both ways, and what is wrong with them in one line."""

from __future__ import annotations

import gzip
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import ConfigError, DataError, FirthError
from firth.vectors import WordVectors, load
from firth.vectors.formats import FORMATS, Format, format_for, save

WORDS = ["the", "of", "queen", "œuvre", "new_york", "no\u00a0break", "3.14", "</s>"]
FOREIGN: list[Format] = ["word2vec", "word2vec-binary", "glove", "fasttext"]


def made(words: list[str] = WORDS, width: int = 7) -> WordVectors:
    """Every kind of float32: ordinary, tiny, large, whole, and both zeros."""
    vectors = np.random.default_rng(0).standard_normal((len(words), width), dtype=np.float32)
    vectors[0] = [0.0, -0.0, 1e-45, -3.4e38, 1.0, 0.1, 16777216.0][:width]
    return WordVectors(words, vectors)


def assert_same(a: WordVectors, b: WordVectors) -> None:
    assert list(a.words) == list(b.words)
    assert (a.vectors.dtype, a.vectors.shape) == (b.vectors.dtype, b.vectors.shape)
    assert a.vectors.tobytes() == b.vectors.tobytes()


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_written_is_recognised_and_read_to_the_same_bits(to: Format, tmp_path: Path) -> None:
    save(made(), tmp_path / "v", to)
    assert_same(load(tmp_path / "v"), made())
    again = tmp_path / "again"
    save(load(tmp_path / "v"), again, to)
    assert again.read_bytes() == (tmp_path / "v").read_bytes()


@pytest.mark.parametrize("to", FORMATS)
def test_any_finite_float32_survives(to: Format, tmp_path: Path) -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, (2000, 5), dtype=np.uint32).view(np.float32)
    vectors = WordVectors([f"w{n}" for n in range(2000)], np.where(np.isfinite(bits), bits, np.float32(0)))
    save(vectors, tmp_path / "v", to)
    assert_same(load(tmp_path / "v", to), vectors)


@pytest.mark.parametrize("to", FOREIGN)
@pytest.mark.parametrize("packing", ["gz", "xz", "zst"])
def test_compressed_files_are_read_as_they_are(to: Format, packing: str, tmp_path: Path) -> None:
    save(made(), tmp_path / "plain", to)
    content = (tmp_path / "plain").read_bytes()
    match packing:
        case "gz":
            packed = gzip.compress(content)
        case "xz":
            packed = lzma.compress(content)
        case _:
            packed = pytest.importorskip("zstandard").compress(content)
    (tmp_path / "packed").write_bytes(packed)
    assert_same(load(tmp_path / "packed"), made())


@pytest.mark.parametrize("to", FOREIGN)
def test_rows_may_be_cut_by_the_chunks_of_reading(to: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.text.readers import file_decoding

    save(made(), tmp_path / "v", to)
    monkeypatch.setattr(file_decoding, "CHUNK", 40)
    assert_same(load(tmp_path / "v", to), made())


def gensims(vectors: WordVectors) -> Any:
    keyed = pytest.importorskip("gensim.models").KeyedVectors(vectors.dim)
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    return keyed


def neighbors() -> WordVectors:
    """Vectors among which one can look around: no number that overflows when squared."""
    return WordVectors([f"w{n}" for n in range(50)], np.random.default_rng(2).standard_normal((50, 9), dtype=np.float32))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim leaves a headerless file open
@pytest.mark.parametrize("to", FOREIGN)
def test_gensim_reads_what_firth_writes_and_finds_the_same_neighbours(to: Format, tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    ours = neighbors()
    save(ours, tmp_path / "v", to)
    theirs = keyed.load_word2vec_format(str(tmp_path / "v"), binary=to == "word2vec-binary", no_header=to == "glove")
    assert theirs.index_to_key == list(ours.words)
    assert theirs.vectors.tobytes() == ours.vectors.tobytes()
    for word in ("w0", "w17"):
        nearest, expected = ours.most_similar(word, topn=5), theirs.most_similar(word, topn=5)
        assert [name for name, _ in nearest] == [name for name, _ in expected]
        np.testing.assert_allclose([c for _, c in nearest], [c for _, c in expected], atol=1e-6)


@pytest.mark.parametrize(("binary", "header"), [(False, False), (False, True), (True, True)])
def test_firth_reads_what_gensim_writes(binary: bool, header: bool, tmp_path: Path) -> None:
    path = tmp_path / "v"
    gensims(made()).save_word2vec_format(str(path), binary=binary, write_header=header)
    assert_same(load(path), made())
    if binary:
        assert b"\n" not in path.read_bytes()[-30:]  # gensim writes no newline behind a row, the original tool does


def test_binary_rows_with_and_without_a_newline_are_the_same(tmp_path: Path) -> None:
    vectors = made()
    for newline in (b"", b"\n"):
        rows = b"".join(
            word.encode() + b" " + row.astype("<f4").tobytes() + newline
            for word, row in zip(vectors.words, vectors.vectors, strict=True)
        )
        (tmp_path / "v").write_bytes(f"{len(vectors)} {vectors.dim}\n".encode() + rows)
        assert_same(load(tmp_path / "v"), vectors)


def test_a_number_that_begins_with_the_byte_of_a_newline_is_a_number(tmp_path: Path) -> None:
    vectors = WordVectors(["a", "b"], np.frombuffer(b"\n\n\n?\x20\n\x0a?" * 2, "<f4").reshape(2, 2))
    for newline in (b"", b"\n"):
        rows = b"".join(w.encode() + b" " + v.tobytes() + newline for w, v in zip("ab", vectors.vectors, strict=True))
        (tmp_path / "v").write_bytes(b"2 2\n" + rows)
        assert_same(load(tmp_path / "v", "word2vec-binary"), vectors)


def test_the_layouts_that_other_tools_write_are_read(tmp_path: Path) -> None:
    expected = WordVectors(["a", "b"], np.float32([[0.5, -1], [2, 1e-5]]))
    for text in (
        "2 2\na 0.5 -1 \nb 2 1e-05 \n",  # fastText and the original tool: a space at the end
        "2 2\r\na 0.5 -1\r\nb 2 0.00001\r\n",  # Windows
        "a 0.5 -1\nb 2 1E-5",  # GloVe; no newline at the end
        "a\t0.5\t-1\nb\t2\t+1e-5\n\n",
        " 2  2\na  0.5 -1.000\nb 2.0 .00001\n",
    ):
        (tmp_path / "v.txt").write_text(text, newline="")
        assert_same(load(tmp_path / "v.txt"), expected)


def test_a_word_with_a_space_in_it_is_read_from_the_right(tmp_path: Path) -> None:
    """As in glove.840B: `. . . -0.1 …`"""
    (tmp_path / "v.txt").write_text("a 1 2\n. . 3 4\nat name@domain.com 5 6\n")
    vectors = load(tmp_path / "v.txt")
    assert list(vectors.words) == ["a", ". .", "at name@domain.com"]
    assert vectors.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
    vectors.save(tmp_path / "v.firth")
    assert_same(load(tmp_path / "v.firth"), vectors)
    for to in FOREIGN:
        with pytest.raises(DataError, match=r'word 2 is "\. \."; .* cannot store .* white space'):
            save(vectors, tmp_path / "out", to)
    assert not (tmp_path / "out").exists()


def binary(header: bytes, *rows: tuple[bytes, list[float]]) -> bytes:
    return header + b"\n" + b"".join(word + b" " + np.array(row, "<f4").tobytes() + b"\n" for word, row in rows)


A, B = (b"a", [0.3, 0.7]), (b"b", [0.1, 0.9])

BROKEN: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["is empty"]),
    "header alone": (b"2 2\n", ["has 0 words, but its header says 2"]),
    "no words promised": (b"0 2\n", ["header for 0 words of dimension 2"]),
    "not vectors": (b"The quick brown fox\njumps\n", ['line 1: "The quick brown fox"', "expected a word and its vector"]),
    "one field": (b"word\n", ['line 1: "word"']),
    "row too short": (b"2 2\na 1 2\nb 1\n", ["line 3", "1 numbers, expected 2"]),
    "row too long": (b"a 1 2\nb 1 2 3\n", ["line 2", "3 numbers, expected 2"]),
    "short and long rows that make up for each other": (b"a 1 2\nb 1\nc 1 2 3\n", ["line 2", "1 numbers, expected 2"]),
    "not a number": (b"a 1 2\nb 1 zwei\n", ["line 2", '"zwei" is not a number']),
    "python's spelling": (b"a 1 2\nb 1 1_0\n", ["line 2", '"1_0" is not a number']),
    "nan": (b"a 1 2\nb 1 nan\n", ["row 2", '"b"', "number 2 is nan"]),
    "too large for float32": (b"a 1 2\nb 1e39 1\n", ["row 2", "number 1 is inf"]),
    "twice": (b"a 1 2\nb 3 4\na 5 6\n", ['"a" occurs in rows 1 and 3']),
    "fewer words than promised": (b"3 2\na 1 2\nb 3 4\n", ["has 2 words, but its header says 3"]),
    "more words than promised": (b"1 2\na 1 2\nb 3 4\n", ["has 2 words, but its header says 1"]),
    "other width than promised": (b"2 3\na 1 2\nb 3 4\n", ["line 2", "2 numbers, expected 3"]),
    "latin1 word": (b"a 1 2\nsch\xf6n 3 4\n", ["row 2", "is not UTF-8"]),
    "no word": (b"a 1 2\n 3 4\n", ["row 2: no word before the numbers"]),
    "binary, cut in a vector": (binary(b"2 2", A, B)[:-3], ["is truncated", "ends in row 2 of 2 (dimension 2)"]),
    "binary, cut in a word": (binary(b"2 2", A, (b"bbb", [1, 2]))[:-11], ["is truncated", "ends in row 2"]),
    "binary, too few": (binary(b"3 2", A, B), ["is truncated", "ends in row 3"]),
    "binary, too many": (binary(b"1 2", A, B), ["continues after the 1 words of dimension 2"]),
    "binary, nan": (binary(b"2 2", A, (b"b", [np.nan, 1])), ["row 2", '"b"', "number 1 is nan"]),
    "binary, twice": (binary(b"2 2", A, A), ['"a" occurs in rows 1 and 2']),
    "binary, other width": (binary(b"2 3", A, B), ["v.bin"]),
    "zip": (b"PK\3\4" + bytes(30), ["is a zip archive. Unpack it"]),
    "fastText model": ((793712314).to_bytes(4, "little") + bytes(30), ["is a fastText model", ".vec"]),
    "damaged gz": (gzip.compress(b"a 1 2\n" * 99)[:-9], ["damaged or truncated compressed file"]),
    "safetensors of something else": ((2).to_bytes(8, "little") + b"{}", ["v.bin"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_one_line_that_says_where(case: str, tmp_path: Path) -> None:
    content, parts = BROKEN[case]
    (tmp_path / "v.bin").write_bytes(content)
    with pytest.raises(FirthError) as caught:
        load(tmp_path / "v.bin")
    message = str(caught.value)
    assert "v.bin" in message
    assert len(message.splitlines()) == 1
    for part in parts:
        assert part in message


@pytest.mark.parametrize("model", ["KeyedVectors", "Word2Vec"])
def test_gensims_pickles_are_refused_with_the_command_that_converts_them(model: str, tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    path = tmp_path / "model.kv"
    if model == "KeyedVectors":
        gensims(neighbors()).save(str(path))
    else:
        models.Word2Vec([["a", "b", "a", "b"]] * 5, vector_size=4, min_count=1).save(str(path))
    with pytest.raises(DataError, match="Python pickle, as saved by gensim") as caught:
        load(path)
    command = str(caught.value).split('python -c "')[1].rstrip('"')
    target = str(tmp_path / "model.bin")
    exec(command.replace("'model.bin'", repr(target)))  # the very line that the user is told to run
    assert len(load(target)) == (50 if model == "KeyedVectors" else 2)


def test_a_pickle_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v.kv").write_bytes(pickle.dumps({"a": 1}))
    monkeypatch.setattr(pickle, "load", lambda *args: pytest.fail("loaded a pickle"))
    with pytest.raises(DataError, match=r"KeyedVectors\.load"):
        load(tmp_path / "v.kv")


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.vectors import word2vec_format

    monkeypatch.setattr(word2vec_format, "_LONGEST", 1 << 20)
    (tmp_path / "v.txt").write_bytes(b"a 1 2\n" + b"x" * (5 << 20))
    with pytest.raises(DataError, match="line 2 is over 1 MB long"):
        load(tmp_path / "v.txt")
    (tmp_path / "v.bin").write_bytes(b"2 2\n" + b"x" * (5 << 20))
    with pytest.raises(DataError, match="row 1: no space after the word"):
        load(tmp_path / "v.bin", "word2vec-binary")


@pytest.mark.parametrize(("make", "message"), [(lambda p: None, "does not exist"), (Path.mkdir, "is a folder")])
def test_what_is_not_a_file_is_told(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    make(tmp_path / "v")
    with pytest.raises(DataError, match=message):
        load(tmp_path / "v")


def test_the_name_of_a_file_tells_what_to_write() -> None:
    names = {"v.firth": "firth", "v.BIN": "word2vec-binary", "v.vec": "fasttext", "v.txt": "word2vec"}
    assert {name: format_for(Path(name)) for name in names} == names
    with pytest.raises(ConfigError, match=r"End it in \.firth .* with format"):
        format_for(Path("v.txt.gz"))


def test_reading_and_writing_tell_how_far_they_are(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    save(made(), tmp_path / "v.txt", progress=lambda *facts: told.append(facts))
    load(tmp_path / "v.txt", progress=lambda *facts: told.append(facts))
    size = (tmp_path / "v.txt").stat().st_size
    assert told == [("writing v.txt", 8, 8), ("reading v.txt", size, size)]


# Damaged files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 999999999\na 1 2\nb 3 4\n", "declares vectors of dimension 999,999,999; expected at most"),
        (b"2 2\na " + bytes(8) + b"b\nc " + bytes(8), "the word b'b\\\\nc' has a newline. Check the dimension"),
        (b"2 2\na 1\t2 3\nb 1  \n", "numbers, expected 2"),
    ],
)
def test_damaged_files_are_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "v")


@pytest.mark.parametrize(("text", "value"), [("1e-999999999", 0.0), ("-1e-300000", -0.0), ("0." + "3" * 6000, 1 / 3)])
def test_numbers_with_many_digits_take_no_time(text: str, value: float, tmp_path: Path) -> None:
    (tmp_path / "v").write_text(f"1 2\nword 1 {text}\n")
    assert load(tmp_path / "v").vectors[0, 1] == np.float32(value)
