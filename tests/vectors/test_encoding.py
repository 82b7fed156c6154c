from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firth.errors import ConfigError, DataError
from firth.files import TEMPORARY
from firth.vectors import encoding
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.sentences import Source
from firth.vectors.vocabulary import Vocabulary

TEXT = "the cat sat\n\non the mat\r\nthe cat the the\nonce\n"


def sentences(corpus: EncodedCorpus) -> list[list[str]]:
    words = corpus.vocabulary.words
    return [[words[id] for id in corpus.sentence(number)] for number in range(len(corpus.ends))]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def slowly(text: str, min_count: int) -> list[list[str]]:
    """The result that `encoded` promises, computed word by word."""
    count = Counter(text.split())
    kept = [[word for word in line.split() if count[word] >= min_count] for line in text.split("\n")]
    return [line for line in kept if line]


def test_sentences_are_lines_without_their_rare_words(tmp_path: Path) -> None:
    made = encoded(write(tmp_path / "a.txt", TEXT), min_count=2)
    assert made.vocabulary.words == ["the", "cat"]
    assert made.vocabulary.count_V.tolist() == [5, 2]
    assert sentences(made) == [["the", "cat"], ["the"], ["the", "cat", "the", "the"]]
    assert made.ends.tolist() == [2, 3, 7]
    assert made.raw_words == 11
    assert (made.ids.dtype, made.ends.dtype) == (np.uint32, np.int64)
    assert isinstance(made.ids, np.memmap)
    assert not made.ids.flags.writeable


def records(folder: Path) -> dict[str, Source]:
    """The same sentences in every way that they can be given."""
    folder.mkdir()
    lines = [line for line in TEXT.replace("\r", "").split("\n") if line]
    write(folder / "a.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in lines))
    write(folder / "a.csv", "text\n" + "".join(f"{line}\n" for line in lines))
    write(folder / "a.tsv", "n\ttext\n" + "".join(f"1\t{line}\n" for line in lines))
    (folder / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "in").mkdir()
    write(folder / "in" / "1.txt", lines[0])  # no newline: the end of a file ends a sentence
    write(folder / "in" / "2.txt", "\n".join(lines[1:]))
    return {
        "jsonl": folder / "a.jsonl",
        "csv": str(folder / "a.csv"),
        "tsv": folder / "a.tsv",
        "gz": folder / "a.txt.gz",
        "folder": folder / "in",
        "glob": str(folder / "in" / "*.txt"),
        "strings": lines,
        "lists of words": [line.split() for line in lines],
        "generator": (line for line in lines),
        "generator of generators": (iter(line.split()) for line in lines),
    }


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "gz", "folder", "glob", "strings"])
def test_every_reader_gives_the_same_sentences(tmp_path: Path, kind: str) -> None:
    assert sentences(encoded(records(tmp_path / "r")[kind])) == slowly(TEXT, 1)


@pytest.mark.parametrize("kind", ["strings", "lists of words", "generator", "generator of generators"])
def test_sentences_from_python_are_read_once_and_leave_no_copy(tmp_path: Path, cache: Path, kind: str) -> None:
    assert sentences(encoded(records(tmp_path / "r")[kind])) == slowly(TEXT, 1)
    assert not [path for path in cache.iterdir() if path.name.startswith(TEMPORARY)]


def test_standard_input_is_read_and_leaves_no_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert sentences(encoded("-")) == slowly(TEXT, 1)
    assert not [path for path in cache.iterdir() if path.name.startswith(TEMPORARY)]


def test_a_data_set_is_read_by_its_name(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.text.datasets.download.local", lambda name, progress: tmp_path)
    write(tmp_path / "wiki8", TEXT)
    assert sentences(encoded("wiki8")) == slowly(TEXT, 1)
    with pytest.raises(DataError, match=r"wordsim is not running text\. Use one of its files"):
        encoded("wordsim")


def test_lower_case_joins_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "The the THE Ä ä\n")
    assert encoded(path, lower=True).vocabulary.words == ["the", "ä"]
    assert len(encoded(path).vocabulary) == 5


def test_punctuation_goes_except_within_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "«Don't!» he said—twice... It's a well-known 'fact'--no?\nC++ new_york 3,5 l’été -\n")
    expected = "Don't he said twice It's a well-known fact no C new_york 3 5 l’été"
    assert " ".join(" ".join(words) for words in sentences(encoded(path, strip_punctuation=True))) == expected
    assert "fact'--no?" in " ".join(encoded(path).vocabulary.words)


def test_a_long_line_is_cut_and_nothing_lost(tmp_path: Path) -> None:
    words = [f"w{n % 7}" for n in range(25_000)]
    made = encoded(write(tmp_path / "a.txt", "first line\n" + " ".join(words) + "\nlast line\n"))
    assert np.diff(made.ends, prepend=0).tolist() == [2, 10_000, 10_000, 5_000, 2]
    assert list(itertools.chain(*sentences(made)))[2:-2] == words


def test_pieces_of_a_corpus_may_end_inside_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "aa bbbbbbbbbbbbbbb cc\ndd   ee\n\nffffffffffffffffff é\xa0中 " * 40
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 7)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 5)
    assert sentences(encoded(write(tmp_path / "a.txt", text))) == slowly(text, 1)


def test_ten_megabytes_without_a_space_are_one_word(tmp_path: Path) -> None:
    blob = "x" * 10_000_000
    path = write(tmp_path / "a.txt", f"a b a b\n{blob}\na b\n")
    assert sentences(encoded(path, min_count=2)) == [["a", "b", "a", "b"], ["a", "b"]]
    assert encoded(path).vocabulary.words == ["a", "b", blob]


def test_what_is_no_text_at_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_WORD_LIMIT", 1 << 20)
    with pytest.raises(DataError, match="over 1 MB without white space; expected separate words"):
        encoded(write(tmp_path / "a.txt", "x" * (4 << 20)))


def same(one: EncodedCorpus, other: EncodedCorpus) -> bool:
    return (one.vocabulary.words, one.vocabulary.count_V.tolist(), one.ids.tolist(), one.ends.tolist(), one.raw_words) == (
        other.vocabulary.words, other.vocabulary.count_V.tolist(), other.ids.tolist(), other.ends.tolist(), other.raw_words
    )  # fmt: skip


def test_the_number_of_threads_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    text = "".join(f"w{int(n)}" + ("\n" if n % 5 == 0 else " ") for n in generator.geometric(0.2, 3000))
    path, expected = write(tmp_path / "a.txt", text), slowly(text, 20)
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 300)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 200)
    monkeypatch.setattr("firth.vectors.vocabulary.cores", lambda: 3)
    one = encoded(path, min_count=20, workers=1)
    assert sentences(one) == expected
    for workers in (2, 5):
        monkeypatch.setattr(encoding, "_FORMAT", 1000 + workers)  # not from the cache
        assert same(encoded(path, min_count=20, workers=workers), one)


def test_counting_in_parts_changes_nothing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    text = "".join(f"w{int(n)}" + ("\n" if n % 5 == 0 else " ") for n in generator.geometric(0.05, 3000))
    path = write(tmp_path / "a.txt", text)
    whole = encoded(path, min_count=3)
    monkeypatch.setattr(encoding, "_WORDS_HELD", 10)
    monkeypatch.setattr(encoding, "_FORMAT", 1000)
    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 500)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 500)
    parts = encoded(path, min_count=3)
    assert same(parts, whole)
    assert not [path for path in cache.iterdir() if path.name.startswith(TEMPORARY)]


def test_what_was_made_before_is_opened_again(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    first = encoded(path, min_count=2)
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "_make", lambda *given: pytest.fail("made again"))
        assert encoded(path, min_count=2).ids.tolist() == first.ids.tolist()
        for other in ({"min_count": 1}, {"min_count": 2, "lower": True}, {"min_count": 2, "max_vocab": 2}):
            with pytest.raises(pytest.fail.Exception):
                encoded(path, **other)
        with pytest.raises(pytest.fail.Exception):
            encoded(path, min_count=2, base=Vocabulary(["x"], np.array([1])))


@pytest.mark.parametrize("damage", ["shorter", "one bit"])
@pytest.mark.parametrize("suffix", [".ids", ".ends", ".txt", ".counts", ".json"])
def test_a_damaged_file_of_the_cache_is_made_again(tmp_path: Path, cache: Path, suffix: str, damage: str) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    expected = sentences(encoded(path))
    (cached,) = (file for file in cache.iterdir() if file.name.startswith("words-") and file.suffix == suffix)
    content = cached.read_bytes()
    cached.unlink()
    cached.write_bytes(content[:-4] if damage == "shorter" else bytes([content[0] ^ 1]) + content[1:])
    noticed = damage == "one bit" and suffix != ".json"
    with pytest.warns(UserWarning, match="in the cache is damaged") if noticed else contextlib.nullcontext():
        assert sentences(encoded(path)) == expected
    assert cached.read_bytes() == content


def test_words_of_a_base_vocabulary_keep_their_place_in_the_ids(tmp_path: Path) -> None:
    base = Vocabulary(["mat", "gone"], np.array([100, 50]))
    made = encoded(write(tmp_path / "a.txt", TEXT), min_count=2, base=base)
    assert made.vocabulary.words == ["mat", "gone", "the", "cat"]
    assert made.vocabulary.count_V.tolist() == [101, 50, 5, 2]
    assert sentences(made)[1] == ["the", "mat"]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("nowhere.txt", "nowhere.txt does not exist"),
        ([], "the list of sentences is empty"),
        (["", " "], "the list of sentences contains no words"),
        ([["new york"]], "sentence 1 contains 'new york'; expected words without white space, such as 'new_york'"),
        (["fine", ["a", ""]], "sentence 2 contains ''"),
        ([["a", 5]], "sentence 1 contains 5"),
        ([b"bytes"], "sentence 1 is b'bytes'; expected a string or a list of words"),
        ([7], "sentence 1 is 7; expected a string or a list of words"),
        (["\ud800"], "half of a surrogate pair"),
    ],
    ids=lambda value: "",
)
def test_what_cannot_be_read_is_refused_with_the_reason(source: Source, complaint: str, cache: Path) -> None:
    with pytest.raises(DataError) as error:
        encoded(source)
    assert complaint in str(error.value)
    assert not [path for path in cache.iterdir() if path.name.startswith(TEMPORARY)]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="format is 'word'; expected one of auto, txt"):
        encoded(write(tmp_path / "a.txt", TEXT), format="word")  # type: ignore[arg-type]


def test_a_full_disk_names_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", TEXT)

    def full(*given: object) -> Iterator[bytes]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoding, "_whole_words", full)
    with pytest.raises(DataError, match=r"No space left on device.*FIRTH_CACHE"):
        encoded(path)
    assert not [path for path in cache.iterdir() if path.name.startswith((TEMPORARY, "words-"))]


def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(lines: int) -> int:
        path = write(tmp_path / f"{lines}.txt", "the cat sat on the mat and went to sleep there until the evening\n" * lines)
        tracemalloc.start()
        made = encoded(path)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(made.ids) == 14 * lines
        return used

    monkeypatch.setattr("firth.text.readers.pieces.PIECE", 1 << 17)
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 1 << 17)
    peak(10)  # imports and first uses
    assert peak(160_000) < 1.2 * peak(80_000)
