from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizer_checks import any_text, assert_all_is_in_the_json, assert_cut_after_a_newline, assert_cut_before_white_space, slow

from firth.errors import DataError
from firth.text.batches.token_files import _Encoders
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece, slices
from firth.text.threads import in_order
from firth.text.tokenizers import chunk_memo
from firth.text.tokenizers.tokenizer import Tokenizer

CORPUS = (
    "The cat sat on the mat.\n\n    def mat(cat):\n        return 'sat' + cat.mat(12)\n"
    "one  two\tthree   four \n naïve café — 𝄞 €5\r\n<eos> isn't <unk> we'll\n" * 4
)
KINDS = ("char", "word", "bpe")
like_the_corpus = st.text(st.sampled_from(sorted(set(CORPUS))), max_size=80)
near_the_corpus = st.text(st.sampled_from("the cat<>eos'\n\t \r\x1c\x85\u00a0\u2003é1."), max_size=80)


def trained(kind: str, text: str = CORPUS, documents: int = 1, **settings: int) -> Tokenizer:
    config = TokenizerConfig(kind, **settings)  # type: ignore[arg-type]
    return Tokenizer.train(config, [Piece(text, True)], documents)


CHAR, WORD, BPE = trained("char"), trained("word"), trained("bpe", vocab=350)
ALL = (CHAR, WORD, BPE)


def test_hello_has_four_characters_and_nothing_else() -> None:
    hello = trained("char", "hello")
    assert [hello.token(id) for id in range(hello.vocab)] == ["e", "h", "l", "o"]
    assert (hello.eos, hello.unknown, hello.lossless) == (None, None, True)
    assert hello.encode("hello").tolist() == [1, 0, 2, 2, 3]
    assert hello.decode([1, 0, 2, 2, 3]) == "hello"


@given(like_the_corpus)
def test_the_character_table_equals_the_tokenizer_json(text: str) -> None:
    ids = CHAR.encode(text)
    assert ids.tolist() == slow(CHAR).encode(text).ids
    assert CHAR.decode(ids) == text == slow(CHAR).decode(ids.tolist())


@given(near_the_corpus)
def test_the_word_table_equals_the_tokenizer_json(text: str) -> None:
    assert WORD.encode(text).tolist() == slow(WORD).encode(text).ids


@given(st.lists(st.integers(0, WORD.vocab - 1).filter(lambda id: id != WORD.eos), max_size=20))
def test_words_decode_as_the_tokenizer_json_does(ids: list[int]) -> None:
    assert WORD.decode(ids) == slow(WORD).decode(ids)


@given(near_the_corpus)
def test_byte_pairs_equal_the_tokenizer_json(text: str) -> None:
    assert BPE.encode(text).tolist() == slow(BPE).encode(text).ids


@given(st.lists(st.integers(0, BPE.vocab - 1), max_size=20))
def test_byte_pairs_decode_any_ids_as_the_tokenizer_json_does(ids: list[int]) -> None:
    assert BPE.decode(ids) == slow(BPE).decode(ids)


@given(any_text)
def test_byte_pairs_spell_any_text(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text
    assert BPE.unseen(text) == []


def test_every_single_byte_is_in_the_vocabulary_of_byte_pairs() -> None:
    assert {BPE._codec._bytes_of[id] for id in range(BPE.vocab)} >= {bytes([byte]) for byte in range(256)}  # type: ignore[union-attr]


@pytest.mark.parametrize("tokenizer", ALL, ids=KINDS)
@given(before=like_the_corpus, after=like_the_corpus)
def test_a_text_may_be_cut_after_any_newline(tokenizer: Tokenizer, before: str, after: str) -> None:
    assert_cut_after_a_newline(tokenizer, before, after)


@given(any_text, any_text)
def test_byte_pairs_of_any_text_may_be_cut_after_any_newline(before: str, after: str) -> None:
    assert_cut_after_a_newline(BPE, before, after)


@pytest.mark.parametrize("tokenizer", [WORD, BPE], ids=["word", "bpe"])
@given(text=near_the_corpus, limit=st.integers(8, 40))
def test_a_text_may_be_cut_before_white_space(tokenizer: Tokenizer, text: str, limit: int) -> None:
    assert_cut_before_white_space(tokenizer, text, limit)


@pytest.mark.parametrize("tokenizer", ALL, ids=KINDS)
@given(texts=st.lists(st.tuples(near_the_corpus | like_the_corpus, st.booleans()), max_size=4))
def test_much_text_is_encoded_as_little_is(tokenizer: Tokenizer, texts: list[tuple[str, bool]]) -> None:
    pieces = [Piece("".join(set(text) & set(CORPUS)) if tokenizer.kind == "char" else text, ends) for text, ends in texts]
    encode = tokenizer.piece_encoders()()
    expected = tokenizer.encode_pieces(pieces)
    for _ in range(2):  # the second time from memory
        assert encode(pieces).tolist() == expected.tolist()
        assert encode(pieces).dtype == expected.dtype


@given(st.lists(st.tuples(any_text, st.booleans()), max_size=4))
def test_any_text_is_encoded_as_bytes_in_chunks_too(texts: list[tuple[str, bool]]) -> None:
    pieces = [Piece(text, ends) for text, ends in texts]
    assert BPE.piece_encoders()()(pieces).tolist() == BPE.encode_pieces(pieces).tolist()
    assert WORD.piece_encoders()()(pieces).tolist() == WORD.encode_pieces(pieces).tolist()


@pytest.mark.parametrize("held", [4, 1 << 20], ids=["forgets", "holds all"])
@pytest.mark.parametrize("tokenizer", [WORD, BPE], ids=["word", "bpe"])
def test_threads_that_share_chunks_encode_as_one_does(tokenizer: Tokenizer, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_memo, "_HELD", held)
    texts = [[Piece(f"{CORPUS} cat{n % 7} mat{n % 11}x{n} ", n % 3 == 0)] for n in range(60)]
    for (ids, _), text in zip(in_order(_Encoders(tokenizer, 1 << 30), texts, 4), texts, strict=True):
        assert ids.tolist() == tokenizer.encode_pieces(text).tolist()


def test_a_chunk_that_one_encoder_knows_no_other_encodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    real = BPE._codec.encode_chunks
    assert real is not None
    monkeypatch.setattr(BPE._codec, "encode_chunks", lambda chunks: [asked.append(chunks), real(chunks)][1])
    new = BPE.piece_encoders()
    new()([Piece("the cat sat", True)])
    new()([Piece("the cat on", True)])
    assert asked == [b"the\n cat\n sat", b" on"]


def test_two_threads_may_learn_the_same_chunk_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    real = BPE._codec.encode_chunks
    assert real is not None

    def learn(chunks: bytes) -> Any:
        asked.append(chunks)
        if len(asked) == 1:
            new()([Piece("the cat", True)])  # meanwhile
        return real(chunks)

    monkeypatch.setattr(BPE._codec, "encode_chunks", learn)
    new = BPE.piece_encoders()
    for text in ("the cat sat", "on the mat", "the mat on sat"):
        assert new()([Piece(text, True)]).tolist() == BPE.encode_pieces([Piece(text, True)]).tolist()
    assert asked == [b"the\n cat\n sat", b"the\n cat", b"on\n the\n mat", b" on"]


def test_a_run_of_white_space_is_never_cut() -> None:
    text = "sat    cat \t   mat     on"
    for limit in range(9, len(text)):
        parts = list(slices(text, limit))
        assert BPE.encode(text).tolist() == [id for part in parts for id in BPE.encode(part).tolist()], parts


@pytest.mark.parametrize("tokenizer", ALL, ids=KINDS)
@given(ids=st.lists(st.integers(0, 20), max_size=30))
def test_spelling_one_by_one_equals_decoding_at_once(tokenizer: Tokenizer, ids: list[int]) -> None:
    assert "".join(tokenizer.spell(ids)) == tokenizer.decode(ids)


@given(st.lists(st.integers(0, BPE.vocab - 1), max_size=30))
def test_spelling_holds_back_half_a_character(ids: list[int]) -> None:
    assert "".join(BPE.spell(ids)) == BPE.decode(ids)
    euro = BPE.encode("𝄞").tolist()
    assert len(euro) > 1
    assert [text for text in BPE.spell(euro) if text] == ["𝄞"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_can_be_sent_to_another_process(kind: str) -> None:
    own = trained(kind, documents=2)
    imported = Tokenizer.imported(own.to_json(), {"eos_token": "<eos>"} if own.eos is not None else {}, own.vocab + 3)
    for tokenizer in (own, imported):
        again = pickle.loads(pickle.dumps(tokenizer))
        for fact in ("kind", "vocab", "ends", "sha256"):
            assert getattr(again, fact) == getattr(tokenizer, fact), fact
        assert again.encode("the cat").tolist() == tokenizer.encode("the cat").tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("documents", [1, 2])
def test_everything_about_a_tokenizer_is_in_its_json(kind: str, documents: int) -> None:
    assert_all_is_in_the_json(trained(kind, documents=documents), kind, CORPUS)


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_documents_end_in_eos_exactly_when_there_are_several(kind: str) -> None:
    assert trained(kind, documents=1).eos is None
    several = trained(kind, documents=2)
    assert several.eos is not None
    pieces = [Piece("the ", False), Piece("cat", True), Piece("<eos>", True)]
    ids = several.encode_pieces(pieces).tolist()
    assert ids.count(several.eos) == 2
    assert ids[-1] == several.eos
    assert several.decode(ids) == "the cat\n<eos>\n"
    assert several.token(several.eos) == "<eos>"


def test_each_line_of_words_ends_in_eos_once() -> None:
    pieces = [Piece("the cat\nsat ", False), Piece("on", True), Piece("the one\n", True)]
    ids = WORD.encode_pieces(pieces).tolist()
    assert [WORD.token(id) for id in ids] == ["the", "cat", "<eos>", "sat", "on", "<eos>", "the", "one", "<eos>"]
    assert WORD.decode(ids) == "the cat\nsat on\nthe one\n"


def test_words_are_numbered_by_frequency_then_alphabetically() -> None:
    words = trained("word", "b a c a\nb a d\n", min_count=2)
    assert [words.token(id) for id in range(words.vocab)] == ["a", "<eos>", "<unk>", "b"]
    assert words.unknown == 2
    assert words.unseen("d a\nc d <unk>") == ["c", "d"]
    assert not words.lossless
    limited = trained("word", "b a c a\nb a d\n", vocab=3)
    assert [limited.token(id) for id in range(limited.vocab)] == ["<unk>", "a", "<eos>"]


def test_rare_characters_become_unknown_when_asked() -> None:
    for tokenizer in (trained("char", "aaabbc", min_count=2), trained("char", "aaabbcd", vocab=3)):
        assert [tokenizer.token(id) for id in range(tokenizer.vocab)] == ["a", "b", "<unk>"]
        assert tokenizer.encode("cab").tolist() == [2, 0, 1] == slow(tokenizer).encode("cab").ids
        assert tokenizer.decode([2, 0, 1]) == "\ufffdab"
        assert tokenizer.unseen("cabz") == ["c", "z"]
        assert not tokenizer.lossless
    assert trained("char", "aaabbcd", vocab=3, documents=2).vocab == 3
    assert trained("char", "abc", vocab=3).unknown is None
    assert trained("char", "aabb", min_count=2).unknown == 2


def test_an_unseen_character_is_named_with_the_remedy() -> None:
    with pytest.raises(DataError) as caught:
        trained("char", "hello").encode("jello\N{EURO SIGN}")
    assert "not in the vocabulary: 'j' '€'." in str(caught.value)
    assert "--tokenizer.kind=bpe" in caught.value.for_command()


def test_what_is_no_character_is_refused() -> None:
    for tokenizer in (CHAR, BPE):
        with pytest.raises(DataError):
            tokenizer.encode("a\udc80")


def test_a_foreign_tokenizer_is_refused() -> None:
    with pytest.raises(DataError, match=r"not a tokenizer\.json"):
        Tokenizer.from_json("{}")
    with pytest.raises(DataError, match="not one of firth's"):
        Tokenizer.from_json(tokenizers.Tokenizer(tokenizers.models.Unigram()).to_str())


def test_tokens_are_readable() -> None:
    assert BPE.token(int(BPE.encode(" cat")[0])) == " cat"
    assert "".join(BPE.token(id) for id in BPE.encode("\N{GRINNING FACE}").tolist()) == "<0xF0><0x9F><0x98><0x80>"
    assert CHAR.token(int(CHAR.encode("\n")[0])) == "\n"


def test_training_twice_gives_the_same_tokenizer_in_another_process_too() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    program = (
        "import sys; from firth.text.tokenizers.tokenizer import *\n"
        "sys.stdin.reconfigure(encoding='utf-8'); text = sys.stdin.read()\n"
        "print(Tokenizer.train(TokenizerConfig('bpe', vocab=600), [Piece(text, True)], 1).sha256)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TOKENIZERS_PARALLELISM": "false"}
    other = subprocess.run(
        [sys.executable, "-c", program], input=here, capture_output=True, text=True, env=environment, check=True, encoding="utf-8"
    )
    assert other.stdout.strip() == trained("bpe", here, vocab=600).sha256


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_child_encodes_without_a_warning_or_a_hang() -> None:
    program = (
        "import os, sys; from firth.text.tokenizers.tokenizer import *\n"
        "t = Tokenizer.train(TokenizerConfig('bpe', vocab=300), [Piece('the cat sat\\n' * 9000, True)], 1)\n"
        "whole = t.encode('the cat\\n' * 9000)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if (t.encode('the cat\\n' * 9000) == whole).all() else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ids_take_the_smallest_type_that_holds_the_vocabulary() -> None:
    assert CHAR.encode("cat").dtype == np.uint16
    many = "".join(map(chr, range(0x10000, 0x10000 + 70_000)))
    large = trained("char", many)
    assert large.encode(many).dtype == np.uint32
    assert large.decode(large.encode(many)) == many
