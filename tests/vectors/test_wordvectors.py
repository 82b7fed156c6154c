"""WordVectors answers as gensim's KeyedVectors do, and says what it cannot answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth import files
from firth.errors import ConfigError, CorruptFile, DataError, RunError
from firth.vectors import WordVectors, firth_file, load, search

WORDS = ["the", "king", "queen", "man", "woman", "apple", "Apple", "banana", "œuvre", "new_york"]


def made(words: list[str] = WORDS, width: int = 12, seed: int = 0) -> WordVectors:
    vectors = np.random.default_rng(seed).standard_normal((len(words), width), dtype=np.float32)
    return WordVectors(words, vectors, np.arange(len(words), 0, -1), {"state": "finished", "epochs": "5"})


def many() -> WordVectors:
    return made([f"w{n}" for n in range(600)], 20)


def keyed(vectors: WordVectors) -> Any:
    keyedvectors = pytest.importorskip("gensim.models").KeyedVectors(vectors.dim)
    keyedvectors.add_vectors(list(vectors.words), vectors.vectors)
    return keyedvectors


def same(ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> None:
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    np.testing.assert_allclose([value for _, value in ours], [value for _, value in theirs], rtol=1e-4, atol=1e-6)


def test_a_word_has_its_row() -> None:
    vectors = made()
    assert (vectors["queen"] == vectors.vectors[2]).all()
    assert "queen" in vectors
    assert "Queen" not in vectors
    assert (len(vectors), vectors.dim, vectors.width, list(vectors)) == (10, 12, 12, WORDS)


def test_words_and_rows_have_the_names_that_gensim_gives_them() -> None:
    vectors = made()
    theirs = keyed(vectors)
    assert vectors.key_to_index == theirs.key_to_index
    assert vectors.index_to_key == theirs.index_to_key
    assert vectors.vector_size == theirs.vector_size == 12
    for key in ("queen", 2, 0):
        assert (vectors.get_vector(key) == theirs.get_vector(key)).all()
        np.testing.assert_allclose(vectors.get_vector(key, norm=True), theirs.get_vector(key, norm=True), rtol=1e-6)
    with pytest.raises(DataError, match=r"no row 10; the vectors have rows 0 to 9"):
        vectors.get_vector(10)


def test_similarity_is_the_cosine() -> None:
    vectors = made()
    a, b = vectors["king"].astype(float), vectors["queen"].astype(float)
    assert vectors.similarity("king", "queen") == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert vectors.similarity("king", "king") == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("positive", "negative"), [(["w1"], []), (["w1", "w2"], ["w3"]), (["w5", "w6", "w7"], ["w1", "w9"]), ([], ["w4"])]
)
@pytest.mark.parametrize("restrict", [None, 100])
def test_most_similar_is_gensims(positive: list[str], negative: list[str], restrict: int | None) -> None:
    vectors = many()
    ours = vectors.most_similar(positive, negative, topn=7, restrict_vocab=restrict)
    same(ours, keyed(vectors).most_similar(positive, negative, topn=7, restrict_vocab=restrict))


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")  # by gensim itself
@pytest.mark.parametrize(("positive", "negative"), [(["w1"], []), (["w1", "w2"], ["w3"]), (["w5", "w6"], ["w1", "w9"])])
def test_3cosmul_is_gensims(positive: list[str], negative: list[str]) -> None:
    vectors = many()
    same(
        vectors.most_similar(positive, negative, topn=7, method="mul"), keyed(vectors).most_similar_cosmul(positive, negative, 7)
    )


def test_one_word_may_stand_without_a_list() -> None:
    vectors = many()
    assert vectors.most_similar("w1", "w2") == vectors.most_similar(["w1"], ["w2"])


@pytest.mark.parametrize("method", ["add", "mul"])
def test_a_vector_may_stand_for_a_word(method: Any) -> None:
    vectors = many()
    words = vectors.most_similar(["w1", "w2"], ["w3"], 5, method)
    for scale, kind in ((1, np.float32), (1e-25, np.float64), (1e20, np.float64)):
        one, three = (scale * vectors[word].astype(kind) for word in ("w1", "w3"))
        mixed = vectors.most_similar([one, "w2"], three, 20, method)
        same([near for near in mixed if near[0] not in ("w1", "w3")][:5], words)
        assert "w1" in dict(mixed)  # only given words are left out
    same(
        vectors.most_similar(np.stack([vectors["w1"], vectors["w2"]]), topn=3),
        vectors.nearest(vectors.unit("w1") + vectors.unit("w2"), 3),
    )


def test_a_vector_is_compared_as_gensim_does_it_and_may_be_a_tensor() -> None:
    vectors, torch = many(), pytest.importorskip("torch")
    vector = vectors.unit("w8") + 0.9 * vectors.unit("w9")  # not equally near: the order of ties depends on the processor
    near = vectors.most_similar(vector, topn=4)
    same(near, keyed(vectors).most_similar(positive=[vector], topn=4))
    same(near, vectors.most_similar(torch.tensor(vector, requires_grad=True), topn=4))
    assert vectors.most_similar(torch.tensor(vector).bfloat16())[0][0] == "w8"
    assert vectors.most_similar(np.array(["w8", "w9"]), topn=4) == vectors.most_similar(["w8", "w9"], topn=4)


def test_an_analogy_adds_b_and_c_and_takes_a_away() -> None:
    vectors = many()
    assert vectors.analogy("w1", "w2", "w3", 4) == vectors.most_similar(["w2", "w3"], ["w1"], 4)
    words = ["spain", "madrid", "france", "paris", "lyon"]
    plane = WordVectors(words, np.float32([[1, 0, 1], [1, 1, 1], [1, 0, -1], [1, 1, -1], [1, -1, -1]]))
    assert [plane.analogy("spain", "madrid", "france", method=method)[0][0] for method in ("add", "mul")] == ["paris"] * 2


def test_a_batch_gives_what_its_words_give_alone() -> None:
    vectors = many()
    words = [f"w{n}" for n in range(0, 600, 7)]
    for word, near in zip(words, vectors.most_similar_batch(words, 5), strict=True):
        same(near, vectors.most_similar(word, topn=5))
        assert word not in dict(near)


def test_nearest_to_a_vector_includes_its_own_word_unless_excluded() -> None:
    vectors = many()
    assert vectors.nearest(vectors["w8"], 3)[0][0] == "w8"
    same(vectors.nearest(vectors["w8"], 3), keyed(vectors).similar_by_vector(vectors["w8"], 3))
    same(vectors.nearest(vectors["w8"], 3, exclude=["w8"]), vectors.most_similar("w8", topn=3))
    assert [near[0][0] for near in vectors.nearest_batch(vectors.vectors[:5], 1)] == ["w0", "w1", "w2", "w3", "w4"]


@pytest.mark.parametrize("words", [["w1", "w2", "w3"], ["w9", "w8", "w7", "w6", "w5"], ["w1", "w2"]])
def test_what_does_not_match_is_what_gensim_finds(words: list[str]) -> None:
    vectors = many()
    ours = vectors.doesnt_match(words)
    unit = {word: vectors.unit(word) for word in words}
    mean = sum(unit.values())
    assert unit[ours] @ mean == pytest.approx(min(unit[word] @ mean for word in words), abs=1e-6)
    if len(words) > 2:  # of two, each is as far from the mean as the other
        assert ours == keyed(vectors).doesnt_match(words)


def test_a_missing_word_names_near_spellings() -> None:
    vectors = made()
    for given, expected in {
        "quen": '"queen"', "womna": '"woman"', "amn": '"man"', "KING": '"king"', "banane": '"banana"', "bananarama": "",
    }.items():  # fmt: skip
        with pytest.raises(DataError) as caught:
            vectors[given]
        message = str(caught.value)
        assert message.startswith(f'"{given}" is not in the vocabulary of 10 words.')
        assert (f"Did you mean {expected}" in message) if expected else message.endswith("words.")
    with pytest.raises(DataError, match='Did you mean "apple" or "Apple"'):
        vectors["APPLE"]


def test_questions_that_make_no_sense_are_told() -> None:
    vectors = made()
    for ask, message in (
        (lambda: vectors.most_similar([]), "at least one positive or negative word"),
        (lambda: vectors.most_similar("king", topn=0), "expected at least 1"),
        (lambda: vectors.most_similar("king", restrict_vocab=0), "restrict_vocab is 0"),
        (lambda: vectors.doesnt_match(["king"]), "at least two"),
        (lambda: vectors.nearest([1.0, 2.0]), "expected a vector of dimension 12"),
        (lambda: vectors.nearest([np.nan] * 12), "nan or infinity"),
        (lambda: vectors.nearest(np.zeros(12)), "the query vector is zero"),
        (lambda: vectors.most_similar(np.ones(11)), r"the query has shape \(11,\); expected a vector of dimension 12"),
        (lambda: vectors.most_similar("king", np.full(12, np.inf)), "nan or infinity"),
        (lambda: vectors.most_similar([np.zeros(12), "king"]), "the query vector is zero"),
        (lambda: vectors.most_similar(["king", 0.5]), "got the number 0.5. Pass a vector as a NumPy array"),
        (lambda: vectors.most_similar(np.ones(12, complex)), "array of complex128; expected real numbers"),
        (lambda: vectors.most_similar("king", "king"), "cancel out"),
        (lambda: WordVectors(["a"], np.zeros((2, 2), np.float32)), "one row per word"),
        (lambda: WordVectors(["a"], np.zeros((1, 2), np.float32), np.zeros(2, np.int64)), "one count per word"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            ask()


def test_a_firth_file_keeps_everything_to_the_bit(tmp_path: Path) -> None:
    vectors = made()
    vectors.outputs = np.random.default_rng(5).standard_normal((9, 12), dtype=np.float32)
    vectors.save(tmp_path / "v.firth", {"state": "interrupted"})
    read = load(tmp_path / "v.firth")
    assert list(read.words) == WORDS
    for name in ("vectors", "counts", "outputs"):
        ours, theirs = getattr(vectors, name), getattr(read, name)
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    assert read.metadata == {"state": "interrupted", "epochs": "5"}


def test_a_file_without_counts_has_none(tmp_path: Path) -> None:
    WordVectors(["a", "b"], np.eye(2, dtype=np.float32)).save(tmp_path / "v.firth")
    read = load(tmp_path / "v.firth")
    assert (read.counts, read.outputs, read.metadata) == (None, None, {})


def test_an_opened_file_is_mapped_and_not_read(tmp_path: Path) -> None:
    made().save(tmp_path / "v.firth")
    read = load(tmp_path / "v.firth")
    assert isinstance(read.vectors, np.memmap)
    assert not {"index", "norm_V"} & set(vars(read))  # made when first asked for


def test_the_rest_of_firth_reads_the_file_too(tmp_path: Path) -> None:
    vectors = made()
    vectors.save(tmp_path / "v.firth")
    tensors, metadata = files.load_tensors(tmp_path / "v.firth")
    assert tensors["vectors"].numpy().tobytes() == vectors.vectors.tobytes()
    assert bytes(tensors["words"].tolist()).decode().split("\n") == WORDS
    assert (metadata["format"], metadata["state"]) == ("firth-vectors", "finished")


def test_a_changed_bit_is_noticed_when_asked_and_in_small_files_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.firth"
    made().save(path)
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match="its checksum does not match"):
        load(path)
    monkeypatch.setattr(firth_file, "CHEAP", 10)
    assert len(load(path)) == 10
    with pytest.raises(CorruptFile, match="its checksum does not match"):
        load(path, verify=True)


@pytest.mark.parametrize("kept", [4, 9, 60, -1])
def test_a_truncated_file_is_told_at_any_size(kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firth_file, "CHEAP", 0)
    path = tmp_path / "v.firth"
    made().save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises((CorruptFile, DataError)) as caught:
        load(path, "firth")
    assert str(path) in str(caught.value)


def test_bytes_behind_the_end_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firth_file, "CHEAP", 0)
    path = tmp_path / "v.firth"
    made().save(path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(CorruptFile, match="longer than its header says"):
        load(path)


def rewritten(path: Path, **changed: Any) -> None:
    """The same file with another header."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for name, value in changed.items():
        header[name] = {**header.get(name, {}), **value}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_headers_that_lie_are_told(tmp_path: Path) -> None:
    path = tmp_path / "v.firth"
    for changed, kind, message in (
        ({"__metadata__": {"version": "99"}}, RunError, "has format version 99; this firth reads up to 1"),
        ({"__metadata__": {"format": "something"}}, DataError, "no word vectors"),
        ({"vectors": {"shape": [10, 13]}}, CorruptFile, 'entry for "vectors" is invalid'),
        ({"counts": {"dtype": "F32"}}, CorruptFile, 'entry for "counts" is invalid'),
        ({"surprise": {"dtype": "F32"}}, CorruptFile, 'entry for "surprise" is invalid'),
    ):
        made().save(path)
        rewritten(path, **changed)
        with pytest.raises(kind, match=message):
            load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "v.firth"
    made().save(path)
    before = path.read_bytes()
    broken = made()
    broken.vectors[3, 4] = np.nan
    with pytest.raises(DataError, match='vector of "man" contains nan'):
        broken.save(path)
    for words in (["a\nb", "c"], ["", "c"], ["c", "c"]):
        with pytest.raises(DataError):
            WordVectors(words, np.eye(2, dtype=np.float32)).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["v.firth"]


def test_queries_need_neither_torch_nor_numba(tmp_path: Path) -> None:
    made().save(tmp_path / "v.firth")
    ask = (
        "import sys; from firth.vectors import load; load(sys.argv[1]).most_similar('king');"
        "print([name for name in ('torch', 'numba', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", ask, tmp_path / "v.firth"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_norms_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = many()
    vectors.most_similar("w1")
    monkeypatch.setattr(search, "norms", lambda x: np.ones(len(x), np.float32) if len(x) < 600 else pytest.fail("again"))
    vectors.most_similar("w2")
