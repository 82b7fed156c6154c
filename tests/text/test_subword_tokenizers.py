from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shares import half
from tokenizer_checks import any_text, assert_all_is_in_the_json, assert_cut_after_a_newline, assert_cut_before_white_space, slow

from firth.config import build
from firth.errors import ConfigError, DataError
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

CORPUS = (
    "The cat sat on the mat.\n\n    def mat(cat):\n        return 'sat' + cat.mat(12)\n"
    "one  two\tthree   four \n naïve café — 𝄞 €5\r\n<eos> isn't <unk> we'll\n## C# is #1\n" * 4
)
KINDS = ("wordpiece", "unigram")
like_the_corpus = st.text(st.sampled_from(sorted(set(CORPUS))), max_size=80)
near_the_corpus = st.text(st.sampled_from("the cat<>eos'\n\t \r\x1c\x85\u00a0\u2003é1.#"), max_size=80)


def trained(kind: str, text: str = CORPUS, documents: int = 1, **settings: int) -> Tokenizer:
    config = TokenizerConfig(kind, **settings)  # type: ignore[arg-type]
    return Tokenizer.train(config, [Piece(text, True)], documents)


WORDPIECE, UNIGRAM = trained("wordpiece", vocab=120), trained("unigram", vocab=300)
BOTH = (WORDPIECE, UNIGRAM)
TWO_DOCUMENTS = {kind: trained(kind, documents=2, vocab=300) for kind in KINDS}


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.token(id) for id in tokenizer.encode(text).tolist()]


def longest_matches(word: str, vocabulary: set[str]) -> list[str]:
    """WordPiece as BERT's authors describe it, slowly."""
    pieces: list[str] = []
    while word:
        prefix = "##" if pieces else ""
        ends = [end for end in range(len(word), 0, -1) if prefix + word[:end] in vocabulary]
        if not ends:
            return ["<unk>"]
        pieces.append(prefix + word[: ends[0]])
        word = word[ends[0] :]
    return pieces


@given(any_text)
def test_unigrams_spell_any_text(text: str) -> None:
    assert UNIGRAM.lossless
    assert UNIGRAM.decode(UNIGRAM.encode(text)) == text
    assert UNIGRAM.unseen(text) == []


@given(near_the_corpus | any_text)
def test_word_pieces_are_the_longest_matches(text: str) -> None:
    vocabulary = slow(WORDPIECE).get_vocab()
    words = re.findall(r"[\n#]|[^\s#]+", text)
    expected = [piece for word in words for piece in longest_matches(word, set(vocabulary))]
    assert WORDPIECE.encode(text).tolist() == [vocabulary[piece] for piece in expected]


@given(like_the_corpus)
def test_word_pieces_lose_white_space_and_nothing_else_of_a_text_of_known_characters(text: str) -> None:
    assert not WORDPIECE.lossless
    assert WORDPIECE.unseen(text) == []
    text = text.replace("<eos>", "").replace("<unk>", "")
    lines = [" ".join(line.replace("#", " # ").split()) for line in text.split("\n")]
    assert WORDPIECE.decode(WORDPIECE.encode(text)) == "\n".join(lines)


def test_a_word_with_an_unseen_character_is_unknown_and_named() -> None:
    text = "the Ω cat ΩΩ\nmat"
    assert tokens(WORDPIECE, text)[:2] == [*tokens(WORDPIECE, "the"), "<unk>"]
    assert WORDPIECE.unseen(text + " <unk>") == ["Ω", "ΩΩ"]
    assert WORDPIECE.decode(WORDPIECE.encode(text)) == "the <unk> cat <unk>\nmat"
    assert WORDPIECE.unseen("a" * 100 + " " + "a" * 101) == ["a" * 101]


def test_pieces_of_words_are_shown_with_a_space_where_a_word_begins() -> None:
    assert tokens(trained("wordpiece", "low lower lowest " * 9 + "w e r", vocab=24), "lower low\n") == [" lower", " low", "\n"]
    small = trained("wordpiece", "ab ab ab", vocab=6)
    assert tokens(small, "ab ba") == [" a", "b", " b", "a"]
    assert set(slow(small).get_vocab()) == {"<unk>", "\n", "a", "b", "##a", "##b"}


def test_the_rarest_characters_give_way_to_a_small_vocabulary() -> None:
    assert trained("wordpiece", "aaa bb c", vocab=5).unseen("a b c") == ["b", "c"]
    assert trained("wordpiece", "aaa bb c", vocab=6).unseen("a b c") == ["c"]
    assert trained("wordpiece", "aaa bb c", min_count=2).unseen("a b c") == ["c"]


@pytest.mark.parametrize("tokenizer", BOTH, ids=KINDS)
@given(text=near_the_corpus)
def test_encoding_equals_the_tokenizer_json(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).tolist() == slow(tokenizer).encode(text).ids


@given(st.lists(st.integers(0, UNIGRAM.vocab - 1), max_size=20))
def test_unigrams_decode_any_ids_as_the_tokenizer_json_does(ids: list[int]) -> None:
    assert UNIGRAM.decode(ids) == slow(UNIGRAM).decode(ids)


@given(st.lists(st.integers(0, WORDPIECE.vocab - 1), max_size=20))
def test_word_pieces_decode_as_the_tokenizer_json_does(ids: list[int]) -> None:
    first = WORDPIECE.encode("the").tolist()  # to begin inside a word is where the library shows the ##
    assert WORDPIECE.decode(first + ids) == slow(WORDPIECE).decode(first + ids)


@pytest.mark.parametrize("tokenizer", BOTH, ids=KINDS)
@given(before=like_the_corpus, after=any_text)
def test_subwords_of_a_text_may_be_cut_after_any_newline(tokenizer: Tokenizer, before: str, after: str) -> None:
    assert_cut_after_a_newline(tokenizer, before, after)


@pytest.mark.parametrize("tokenizer", BOTH, ids=KINDS)
@given(text=near_the_corpus, limit=st.integers(8, 40))
def test_subwords_of_a_text_may_be_cut_before_white_space(tokenizer: Tokenizer, text: str, limit: int) -> None:
    assert_cut_before_white_space(tokenizer, text, limit)


@pytest.mark.parametrize("tokenizer", BOTH, ids=KINDS)
@given(data=st.data())
def test_subwords_spelled_one_by_one_equal_decoding_at_once(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab - 1), max_size=30))
    assert "".join(tokenizer.spell(ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("documents", [1, 2])
def test_everything_about_a_subword_tokenizer_is_in_its_json(kind: str, documents: int) -> None:
    assert_all_is_in_the_json(trained(kind, documents=documents), kind, CORPUS)


@pytest.mark.parametrize("kind", KINDS)
def test_subwords_of_documents_end_in_eos_exactly_when_there_are_several(kind: str) -> None:
    assert trained(kind, documents=1).eos is None
    several = trained(kind, documents=2)
    assert several.eos is not None
    pieces = [Piece("the ", False), Piece("cat", True), Piece("<mat>", True)]
    ids = several.encode_pieces(pieces).tolist()
    assert ids.count(several.eos) == 2
    assert several.decode(ids) == "the cat\n<mat>\n"
    assert several.token(several.eos) == "<eos>"


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.tuples(any_text | near_the_corpus, st.booleans()), max_size=4))
def test_much_text_is_cut_into_subwords_as_little_is(kind: str, texts: list[tuple[str, bool]]) -> None:
    several = TWO_DOCUMENTS[kind]
    pieces = [Piece(text, ends) for text, ends in texts]
    assert several.piece_encoders()()(pieces).tolist() == several.encode_pieces(pieces).tolist()


def test_no_text_is_the_eos_of_unigrams() -> None:
    several = trained("unigram", documents=2)
    assert several.eos not in several.encode("<eos> a<eos> <eos>\n" + CORPUS)
    assert several.decode(several.encode("<eos>")) == "<eos>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocab", [257, 280, 300])
def test_a_subword_vocabulary_is_no_larger_than_asked_for(kind: str, vocab: int) -> None:
    assert trained(kind, vocab=vocab, documents=2).vocab <= vocab
    assert trained("unigram", "x", vocab=vocab).decode(trained("unigram", "x", vocab=vocab).encode("é")) == "é"


@pytest.mark.parametrize("kind", half(KINDS))
def test_training_subwords_again_gives_the_same_tokenizer_in_another_process_too(kind: str) -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    assert len({trained(kind, here, vocab=400).sha256 for _ in range(4)}) == 1
    program = (
        "import sys; from firth.text.tokenizers.tokenizer import *\n"
        "sys.stdin.reconfigure(encoding='utf-8'); text = sys.stdin.read()\n"
        f"print(Tokenizer.train(TokenizerConfig('{kind}', vocab=400), [Piece(text, True)], 1).sha256)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TOKENIZERS_PARALLELISM": "false"}
    other = subprocess.run(
        [sys.executable, "-c", program], input=here, capture_output=True, text=True, env=environment, check=True, encoding="utf-8"
    )
    assert other.stdout.strip() == trained(kind, here, vocab=400).sha256


@pytest.mark.parametrize("tokenizer", BOTH, ids=KINDS)
def test_half_a_surrogate_pair_has_no_subwords(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        tokenizer.encode("a\udc80")


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_prepares_subwords_of_the_whole_text(kind: str) -> None:
    prepared = prepare(DataConfig(text=CORPUS), build(TokenizerConfig, {"kind": kind, "vocab": 280}, "tokenizer"))
    assert prepared.valid is not None
    ids = [*prepared.train.ids.tolist(), *prepared.valid.ids.tolist()]
    expected = CORPUS.replace("\r\n", "\n")
    if prepared.tokenizer.lossless:
        assert prepared.tokenizer.decode(ids) == expected
    else:
        assert prepared.tokenizer.decode(ids).replace(" ", "") == re.sub(r"[^\S\n]", "", expected)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "unigram", "vocab": 256}, "tokenizer.vocab is 256; expected at least 257 for unigram"),
        ({"kind": "wordpiece", "vocab": 4}, "tokenizer.vocab is 4; expected at least 5 for wordpiece"),
        ({"kind": "unigram", "min_count": 2}, "tokenizer.min_count is 2, but unigram keeps pieces by likelihood"),
        ({"kind": "wordpeice"}, 'Did you mean "wordpiece"?'),
    ],
)
def test_bad_subword_settings_are_refused_by_their_full_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(TokenizerConfig, table, "tokenizer")
    assert message in str(caught.value)
