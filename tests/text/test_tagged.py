"""Tagged sentences: how CoNLL and CoNLL-U are read, that tags stand at first pieces, and that batches depend on seed and
position alone."""

from __future__ import annotations

import functools
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tags import SENTENCES, Tagged, write

from firth.errors import ConfigError, DataError
from firth.text.batches.sentences import BucketedSentences, spelling
from firth.text.config import TaggedConfig, TagScheme, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.data.tag_schemes import in_scheme
from firth.text.data.tagged import encode_tagged, encode_words, prepare_tagged
from firth.text.readers.conll import ConllColumns, Sentence
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.word_alignment import WordAligner

WORDS = TokenizerConfig(kind="word")
# A contraction that is two words, a word that nobody wrote, comments, carriage returns, no empty line at the end.
CONLLU = """# newdoc id = x
# sent_id = 1
# text = Don't see, they did not.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tsee\tsee\tVERB\tVB\t_\t_\t_\t1:conj\t_
3\tsee\tsee\tVERB\tVB\t_\t1\tconj\t_\tSpaceAfter=No

# a comment between sentences

1\t10 000\t10 000\tNUM\tCD\t_\t0\troot\t_\t_
2\t#\t#\tSYM\tNN\t_\t1\tdep\t_\t_"""


def read(path: Path, **columns: object) -> list[Tagged]:
    sentences = ConllColumns(**{"format": None} | columns).sentences(path)  # type: ignore[arg-type]
    return [list(zip(sentence.words, sentence.tags, strict=True)) for sentence in sentences]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_conllu_passes_over_comments_ranges_and_empty_nodes(line_end: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", CONLLU.replace("\n", line_end))
    assert read(path) == [
        [("Do", "AUX"), ("n't", "PART"), ("see", "VERB")],
        [("10 000", "NUM"), ("#", "SYM")],
    ]
    assert [sentence.lines for sentence in ConllColumns(None).sentences(path)] == [(5, 6, 8), (12, 13)]


def test_a_column_is_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", CONLLU)
    assert [tag for _, tag in read(path, tag="xpos")[0]] == ["VB", "RB", "VB"] == [tag for _, tag in read(path, tag=5)[0]]
    assert read(path, word="lemma", tag="DEPREL")[0] == [("do", "root"), ("not", "advmod"), ("see", "conj")]


def test_conll_has_columns_between_tabs_or_spaces_and_marks_of_documents(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n-DOCSTART- -X- -X- O\n# NN B-NP O\n"
    for number, spaced in enumerate((text, text.replace(" ", "\t"))):
        path = written(tmp_path / f"{number}.conll", spaced)
        assert read(path) == [[("EU", "B-ORG"), ("rejects", "O")], [("#", "O")]], "the last column, unless told otherwise"
        assert read(path, tag=2)[0] == [("EU", "NNP"), ("rejects", "VBZ")]
        assert read(path, word=4, tag=1)[1] == [("O", "#")]


def test_the_format_is_told_by_the_name_or_outright_and_files_may_be_packed(tmp_path: Path) -> None:
    packed = tmp_path / "a.conllu.gz"
    packed.write_bytes(gzip.compress(CONLLU.encode()))
    assert len(read(packed)) == 2
    plain = written(tmp_path / "a.txt", "a X\nb Y\n")
    assert read(plain, format="conll") == [[("a", "X"), ("b", "Y")]]
    with pytest.raises(DataError, match=r"a\.txt may be CoNLL or CoNLL-U\. .*data\.format"):
        read(plain)


def test_columns_tell_the_format_of_a_file_whose_suffix_does_not(tmp_path: Path) -> None:
    plain = written(tmp_path / "eng.train", "a X O\nb Y B\n")
    with pytest.raises(DataError, match=r"eng\.train may be CoNLL or CoNLL-U"):
        read(plain)
    assert read(plain, tag=3) == [[("a", "O"), ("b", "B")]]
    assert read(plain, word=1) == [[("a", "O"), ("b", "B")]]
    universal = written(tmp_path / "en.train", CONLLU)
    assert read(universal, tag="upos") == read(universal, format="conllu")
    assert read(universal, tag=4) == read(universal, format="conllu")


def test_a_format_given_outright_holds_for_the_runs_own_files_whatever_they_are_called(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", "a X\nb Y\n")
    data = TaggedConfig(path=str(path), format="conll", valid=0.0)
    assert prepare_tagged(data, WORDS).labels == ("X", "Y")
    other = write(tmp_path / "b.conllu", [[("a", "X")]])
    tokenizer = Tokenizer.train(WORDS, pieces_of_text("a"), documents=1)
    encoded = encode_tagged(other, tokenizer, TaggedConfig(path=str(path), format="conll", labels=("X", "Y")))
    assert encoded.label.tolist() == [0], "another file is what its name says"


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("a.conll", "a X\nb\n", {}, r"a\.conll:2 has 1 column; expected its tag in column 2 \(data\.tag_column\), columns separ"),
        (
            "a.conll",
            "a\nb\n",
            {},
            r"a\.conll:1 has 1 column; expected a tag after the word, columns separated by tabs or spaces",
        ),
        ("a.conll", "a X\n", {"tag": 4}, r"a\.conll:1 has 2 columns; expected its tag in column 4"),
        ("a.conll", "a\t\n", {}, r"a\.conll:1: column 2 is empty; expected its tag"),
        ("a.conllu", "1\ta\ta\n", {}, r"a\.conllu:1 has 3 columns; expected its tag in column 4 .*separated by tabs"),
        ("a.conllu", "1\t \ta\tX\n", {}, r"a\.conllu:1: column 2 is empty; expected the word"),
        ("a.conllu", "# x\na X\n", {}, r"a\.conllu:2 begins with 'a X'; a line of CoNLL-U begins with the number .*conll"),
    ],
)
def test_a_line_that_is_not_right_is_named(name: str, text: str, columns: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / name, text), **columns)


def test_all_words_without_a_tag_are_told_at_once(tmp_path: Path) -> None:
    train = written(tmp_path / "a.conll", "a\tX\nb\t\n\n\tY\nc\tY\n\nd\t\ne\t \n")
    message = r"4 of 6 words of .*a\.conll have no word or no tag: .*:2, .*:4, .*:7, …\. Complete them, or remove their sentences"
    with pytest.raises(DataError, match=message):
        prepare_tagged(TaggedConfig(path=str(train), format="conll"), WORDS)


def test_columns_that_there_are_not_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", CONLLU)
    with pytest.raises(ConfigError, match=r'data\.tag_column is "upso"; CoNLL-U has no such column\. Did you mean "upos"'):
        read(path, tag="upso")
    with pytest.raises(ConfigError, match=r'data\.word_column is "form", but the columns of CoNLL have no names'):
        read(written(tmp_path / "a.conll", "a X\n"), word="form")
    for settings in ({"tag_column": 0}, {"word_column": -1}, {"tag_column": ""}):
        with pytest.raises(ConfigError, match=r"expected a column number from 1 on"):
            TaggedConfig(path="a.conll", **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"data\.word_column and data\.tag_column are both 2"):
        TaggedConfig(path="a.conll", word_column=2, tag_column=2)


def test_both_formats_give_the_same_data(tmp_path: Path) -> None:
    conll, conllu = (prepare_tagged(TaggedConfig(path=str(write(tmp_path / f"a.{s}"))), WORDS) for s in ("conll", "conllu"))
    assert conll.sha256 == conllu.sha256
    assert conll.labels == conllu.labels == ("ADJ", "DET", "NOUN", "PRON", "VERB")
    assert np.array_equal(conll.train.ids, conllu.train.ids)
    assert np.array_equal(conll.train.label, conllu.train.label)


def spelled_out(data: object, part: object) -> list[Tagged]:
    """Words by their first pieces, and tags, from the batches of a sweep."""
    of_row: dict[int, Tagged] = {}
    for row_B, batch in part.sweep(3, spelled=True):  # type: ignore[attr-defined]
        for n, row in enumerate(row_B.tolist()):
            there = batch.label_BW[n] >= 0
            words = [data.tokenizer.token(int(batch.token_BT[n, place])) for place in batch.first_BW[n][there]]  # type: ignore[attr-defined]
            of_row[row] = list(zip(words, [data.labels[tag] for tag in batch.label_BW[n][there]], strict=True))  # type: ignore[attr-defined]
    return [of_row[row] for row in sorted(of_row)]


def test_what_is_encoded_is_what_was_read(tmp_path: Path) -> None:
    data = prepare_tagged(TaggedConfig(path=str(write(tmp_path / "a.conll")), valid=0.0), WORDS)
    assert data.valid is None
    assert spelled_out(data, data.train) == SENTENCES
    held = prepare_tagged(TaggedConfig(path=str(tmp_path / "a.conll"), valid=0.25), WORDS)
    assert held.valid is not None
    assert (len(held.train), len(held.valid)) == (30, 10)
    both = spelled_out(held, held.train) + spelled_out(held, held.valid)
    assert Counter(map(tuple, both)) == Counter(map(tuple, SENTENCES))


def test_files_of_their_own_are_read_with_the_same_columns_and_not_learned_from(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conllu")
    other = [[("unheard", "XNOUN"), ("of", "XDET")]]
    test = written(tmp_path / "t.conll", "".join(f"{word} {word} . . {tag}\n" for word, tag in other[0]))
    data = prepare_tagged(
        TaggedConfig(path=str(train), tag_column=5, word_column=2, test_path=str(test), valid_path=str(train)), WORDS
    )
    assert data.test is not None
    assert spelled_out(data, data.test) == [[("<unk>", "XNOUN"), ("<unk>", "XDET")]]
    assert data.valid is not None
    assert len(data.valid) == len(data.train) == len(SENTENCES)


KINDS = [
    TokenizerConfig(kind="word"),
    TokenizerConfig(kind="word", lower=True),
    TokenizerConfig(kind="char"),
    TokenizerConfig(kind="bpe", vocab=300),
    TokenizerConfig(kind="wordpiece", vocab=60),
    TokenizerConfig(kind="unigram", vocab=280),
]
TEXT = "the cats don't see the catalogue #1 , she said . it 's naïve 日本 thecat ( a-b )"


@functools.cache
def trained(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(config, pieces_of_text(TEXT * 3), documents=1)


@pytest.mark.parametrize("config", KINDS, ids=lambda config: f"{config.kind}{config.lower:d}")
@given(words=st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=8))
def test_the_pieces_of_the_words_are_those_of_the_sentence(config: TokenizerConfig, words: list[str]) -> None:
    tokenizer = trained(config)
    ids, first = WordAligner(tokenizer)(words)
    assert ids.tolist() == tokenizer.encode(" ".join(words)).tolist()
    assert len(first) == len(words)
    ends = [*first[1:].tolist(), len(ids)]
    for word, start, end in zip(words, first.tolist(), ends, strict=True):
        own = tokenizer.decode(ids[start:end]).replace(" ", "")  # wordpiece sets "#" off
        assert own in (word, word.lower() if config.lower else word, "<unk>")
        assert config.kind != "char" or tokenizer.token(int(ids[start])) == word[0], "not the space before it"


def test_a_word_without_pieces_has_one() -> None:
    tokenizer = Tokenizer.train(WORDS, pieces_of_text("a b"), documents=1)
    ids, first = WordAligner(tokenizer)(["a", "\u2003", "b"])
    assert ids.tolist() == [tokenizer.encode("a")[0], tokenizer.unknown, tokenizer.encode("b")[0]]
    assert first.tolist() == [0, 1, 2]


def test_characters_that_never_saw_a_space_do_without() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="char"), pieces_of_text("ab"), documents=1)
    assert WordAligner(tokenizer)(["a", "ba"])[1].tolist() == [0, 1]


def test_a_spelling_is_the_bytes_between_two_marks_and_keeps_both_ends_of_a_long_word() -> None:
    assert spelling("aé").tolist() == [1, 3 + 0x61, 3 + 0xC3, 3 + 0xA9, 2]
    long = spelling("x" * 40 + "ing").tolist()
    assert len(long) == 34
    assert long[-4:] == [3 + byte for byte in b"ing"] + [2]
    assert len(spelling("y" * 32)) == 34


def test_a_batch_has_the_spelling_of_each_word_or_of_none(tmp_path: Path) -> None:
    sentences = encode_words([["a", "bcd"], ["é"]], Tokenizer.train(WORDS, pieces_of_text("a"), documents=1))
    batch = sentences.batch(np.array([1, 0]), spelled=True)
    assert batch.symbol_BWK.shape == (2, 2, 5)
    for row, place, word in ((0, 0, "é"), (1, 0, "a"), (1, 1, "bcd")):
        own = spelling(word).tolist()
        assert batch.symbol_BWK[row, place].tolist() == own + [0] * (5 - len(own))
    assert not batch.symbol_BWK[0, 1].any()
    assert sentences.batch(np.array([0]), spelled=False).symbol_BWK.shape == (1, 2, 0)
    assert (batch.label_BW == -1).all()
    assert batch.tokens == 3


def batches(path: Path, **settings: object) -> BucketedSentences:
    data = prepare_tagged(TaggedConfig(path=str(path), valid=0.0), WORDS)
    return BucketedSentences(data.train, 8, seed=3, spelled=True, unknown=data.tokenizer.unknown, **settings)  # type: ignore[arg-type]


def test_batches_are_a_function_of_the_position(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll")
    one, other = batches(path, hidden=0.3), batches(path, hidden=0.3)
    there = [one.next() for _ in range(12)]
    for position in (7, 2, 11):
        other.seek(position)
        again = other.next()
        for name in ("token_BT", "length_B", "first_BW", "symbol_BWK", "label_BW"):
            assert np.array_equal(getattr(again, name), getattr(there[position], name)), name
        assert other.position == position + 1


def test_some_words_are_hidden_and_their_spelling_and_tags_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll")
    plain, hiding = batches(path), batches(path, hidden=0.25)
    hidden = total = 0
    seen = set()
    for _ in range(60):
        one, other = plain.next(), hiding.next()
        assert np.array_equal(one.symbol_BWK, other.symbol_BWK)
        assert np.array_equal(one.label_BW, other.label_BW)
        changed = (one.token_BT != other.token_BT) & (np.arange(one.token_BT.shape[1]) < one.length_B[:, None])
        seen.add(changed.tobytes())
        hidden, total = hidden + int(changed.sum()), total + one.tokens
    assert abs(hidden / total - 0.25) < 4 * (0.25 * 0.75 / total) ** 0.5
    assert len(seen) > 50, "others in each batch"


def test_sentences_of_a_batch_have_similar_lengths(tmp_path: Path) -> None:
    source = batches(write(tmp_path / "a.conll"))
    spread = [np.ptp(source.next().length_B) for _ in range(5)]
    assert sorted(spread)[2] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.conll has no sentences; expected a word and its tag per line"),
        ("\n\n-DOCSTART- O\n", r"has no sentences"),
        ("a X\nb X\n", r'all 2 words of .*a\.conll are tagged "X"; expected two tags or more\. Check data\.tag_column'),
    ],
)
def test_files_with_nothing_to_learn_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        prepare_tagged(TaggedConfig(path=str(written(tmp_path / "a.conll", text))), WORDS)


def test_a_tag_that_only_another_file_has_is_named_with_its_line(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conll")
    other = written(tmp_path / "t.conll", "the DET\n\nbag NOUNS\n")
    message = r't\.conll:3 is tagged "NOUNS", which does not occur in the training file; the tags are ADJ, DET, NOUN, PRON, VERB'
    for settings in ({"test_path": str(other)}, {"valid_path": str(other)}):
        with pytest.raises(DataError, match=message):
            prepare_tagged(TaggedConfig(path=str(train), **settings), WORDS)  # type: ignore[arg-type]
    data = TaggedConfig(path=str(train), labels=("DET", "NOUN"))
    tokenizer = Tokenizer.train(WORDS, pieces_of_text("a"), documents=1)
    with pytest.raises(DataError, match=r't\.conll:3 is tagged "NOUNS", .* the tags are DET, NOUN\.'):
        encode_tagged(other, tokenizer, data)
    allowed = TaggedConfig(path=str(train), labels=("ADJ", "DET", "NOUN", "NOUNS", "PRON", "VERB"), test_path=str(other))
    assert prepare_tagged(allowed, WORDS).labels == allowed.labels


def test_all_is_not_held_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"leaves none of 1 sentences"):
        prepare_tagged(TaggedConfig(path=str(written(tmp_path / "a.conll", "a X\nb Y\n")), valid=0.5), WORDS)


def test_words_with_tags_are_not_running_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'a\.conll holds tagged words, one per line, not running text\. .*"tagging"'):
        prepare(TaggedConfig(path=str(write(tmp_path / "a.conll"))), TokenizerConfig())


def test_words_alone_are_read_from_lines(tmp_path: Path) -> None:
    sentences = list(ConllColumns("conllu").sentences_of_lines(CONLLU.split("\n"), "standard input"))
    assert [sentence.words for sentence in sentences] == [("Do", "n't", "see"), ("10 000", "#")]
    assert sentences[0] == Sentence(("Do", "n't", "see"), (), "standard input", (5, 6, 8))
    assert [s.words for s in ConllColumns(None).sentences_of_lines(["a", "b X", "", "c"], "x")] == [("a", "b"), ("c",)]


@pytest.mark.long
def test_the_treebank_has_its_sentences_and_words(firth_data: Path) -> None:
    """As many words as `grep -cP '^\\d+\\t'` counts lines that begin with a whole number."""
    data = prepare_tagged(TaggedConfig(name="ud-english-ewt"), TokenizerConfig(kind="word", min_count=2))
    assert len(data.labels) == 17
    assert data.valid is not None
    assert data.test is not None
    counts = [(len(part), part.words) for part in (data.train, data.valid, data.test)]
    assert counts == [(12_544, 204_577), (2_001, 25_147), (2_077, 25_094)]


SPAN_TAGS = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC"))]


@given(tags=st.lists(st.sampled_from(SPAN_TAGS), min_size=1, max_size=12))
@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_tags_of_another_scheme_mark_the_same_spans(scheme: TagScheme, tags: list[str]) -> None:
    """Those that seqeval finds, as conlleval does; and each scheme allows its own."""
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB2, IOBES, Entities

    given = Sentence(tuple("w" * len(tags)), tuple(tags), "a.conll", tuple(range(len(tags))))
    converted = list(in_scheme(given, scheme).tags)
    spans = get_entities(tags)
    assert get_entities(converted) == spans
    strict = Entities([converted], scheme=IOB2 if scheme == "iob2" else IOBES).entities[0]
    assert [(one.tag, one.start, one.end - 1) for one in strict] == spans
    assert in_scheme(given, None) == given


@pytest.mark.parametrize(
    ("given", "iob2", "bioes"),
    [
        ("I-PER I-PER O B-PER", "B-PER I-PER O B-PER", "B-PER E-PER O S-PER"),  # IOB1
        ("B-A L-A U-A B-A I-A L-A", "B-A I-A B-A B-A I-A I-A", "B-A E-A S-A B-A I-A E-A"),  # BILOU
        ("I-A B-A I-B", "B-A B-A B-B", "S-A S-A S-B"),
    ],
)
def test_iob1_and_bilou_are_read(given: str, iob2: str, bioes: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "".join(f"w {tag}\n" for tag in given.split()) + "\nw O\n")
    for scheme, expected in (("iob2", iob2), ("bioes", bioes)):
        data = prepare_tagged(TaggedConfig(path=str(path), valid_path=str(path), valid=0.0, tag_scheme=scheme), WORDS)  # type: ignore[arg-type]
        for part in (data.train, data.valid):
            assert part is not None
            assert [tag for _, tag in spelled_out(data, part)[0]] == expected.split()
        other = encode_tagged(path, data.tokenizer, TaggedConfig(labels=data.labels, tag_scheme=scheme))  # type: ignore[arg-type]
        assert np.array_equal(other.label, data.train.label)


def test_tags_that_mark_no_spans_have_no_scheme(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "the O\ncat NOUN\n")
    with pytest.raises(DataError, match=r'a\.conll:2 is tagged "NOUN", which marks no span; expected O, or a tag such as B-PER'):
        prepare_tagged(TaggedConfig(path=str(path), tag_scheme="bioes"), WORDS)


def test_only_words_that_occur_once_are_hidden_if_the_others_may_not_be(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "once ONCE\noften OFTEN\n\noften OFTEN\nrare ONCE\n\noften OFTEN\n")
    plain, hiding = batches(path), batches(path, hidden=0.5, rare=True)
    hidden = total = 0
    for _ in range(60):
        one, other = plain.next(), hiding.next()
        changed, rare = one.token_BT != other.token_BT, one.label_BW == 1
        assert not (changed & ~rare).any()
        hidden, total = hidden + int(changed.sum()), total + int(rare.sum())
    assert abs(hidden / total - 0.5) < 4 * (0.25 / total) ** 0.5
