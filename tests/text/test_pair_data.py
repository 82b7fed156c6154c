"""Sentence pairs: how they are read and split, what a limit leaves out, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import ConfigError, DataError
from firth.text.batches.pairs import Pairs
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.data.pairs import PairData, encode_pairs, encode_source, prepare_pairs
from firth.text.data.sentence_pairs import sentence
from firth.text.tokenizers.tokenizer import Tokenizer

WORDS = TokenizerConfig(kind="word")
BOOKS = [("This is a book", "Dit is een boek"), ("A dog", "Een hond"), ("Two dogs, one cat", "Twee honden, een kat")]
MANY = [(f"word{n} here", f"woord{n} hier dan") for n in range(40)]


def write_two(folder: Path, pairs: list[tuple[str, str]], name: str = "t") -> tuple[Path, Path]:
    paths = folder / f"{name}.en", folder / f"{name}.nl"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return paths


def write_one(path: Path, pairs: list[tuple[str, str]], header: tuple[str, str] | None = ("source", "target")) -> Path:
    match path.suffix:
        case ".tsv":
            rows = [*([header] if header else []), *pairs]
            path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
        case ".csv":
            rows = [*([header] if header else []), *pairs]
            path.write_text("".join(f'"{source}","{target}"\n' for source, target in rows), encoding="utf-8")
        case ".jsonl":
            assert header is not None
            records = [dict(zip(header, pair, strict=True)) for pair in pairs]
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        case ".parquet":
            assert header is not None
            arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
            columns = {name: [pair[side] for pair in pairs] for side, name in enumerate(header)}
            parquet.write_table(arrow.table(columns), path)
    return path


def prepared(path: Path, other: Path | None = None, **settings: Any) -> PairData:
    data = PairsConfig(path=str(path), target_path=None if other is None else str(other), **{"valid": 0.0, **settings})
    return prepare_pairs(data, WORDS)


def spelled(pairs: Pairs | None, data: PairData) -> list[tuple[str, str]]:
    """Both sides, decoded; each ends with <eos>, which reads as a newline."""
    assert pairs is not None
    texts = []
    for n in range(len(pairs)):
        batch = pairs.batch(np.array([n]))
        source, target = data.source_tokenizer.decode(batch.source_BS[0]), data.tokenizer.decode(batch.target_BT[0])
        assert source.endswith("\n")
        assert target.endswith("\n")
        texts.append((source[:-1], target[:-1]))
    return texts


def test_two_files_are_read_line_by_line(tmp_path: Path) -> None:
    data = prepared(*write_two(tmp_path, BOOKS))
    assert spelled(data.train, data) == BOOKS
    assert (data.valid, data.test, data.notice) == (None, None, None)
    assert data.train.texts is None


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_each_format_gives_the_same_pairs(suffix: str, tmp_path: Path) -> None:
    two = prepared(*write_two(tmp_path, BOOKS))
    one = prepared(write_one(tmp_path / f"t.{suffix}", BOOKS))
    assert spelled(one.train, one) == BOOKS
    assert one.sha256 == two.sha256
    named = write_one(tmp_path / f"u.{suffix}", BOOKS, header=("nl", "en"))  # the other way round
    other = prepared(named, source="en", target="nl")
    assert spelled(other.train, other) == [(target, source) for source, target in BOOKS]


def test_files_may_be_compressed(tmp_path: Path) -> None:
    source, target = write_two(tmp_path, BOOKS)
    packed = tmp_path / "s.gz", tmp_path / "t.xz"
    packed[0].write_bytes(gzip.compress(source.read_bytes()))
    packed[1].write_bytes(lzma.compress(target.read_bytes()))
    data = prepared(*packed)
    assert spelled(data.train, data) == BOOKS


def test_standard_input_is_read_and_forgotten(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_one(tmp_path / "t.tsv", BOOKS).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table)))
    data = prepared(Path("-"), format="tsv")
    assert spelled(data.train, data) == BOOKS
    assert not [path for path in cache.rglob("*") if "stdin" in path.name]


def test_patterns_of_as_many_files_are_read_file_by_file(tmp_path: Path) -> None:
    write_two(tmp_path, BOOKS[:1], "a")
    write_two(tmp_path, BOOKS[1:], "b")
    data = prepared(tmp_path / "*.en", tmp_path / "*.nl")
    assert spelled(data.train, data) == BOOKS
    with pytest.raises(DataError, match=r"\*\.en is 2 files and .*a\.nl is 1; expected equal numbers"):
        prepared(tmp_path / "*.en", tmp_path / "a.nl")


def test_a_table_without_a_line_of_names_has_them_from_the_settings(tmp_path: Path) -> None:
    path = write_one(tmp_path / "t.tsv", BOOKS, header=None)
    data = prepared(path, columns=("nl", "en"), source="en", target="nl")
    assert spelled(data.train, data) == [(target, source) for source, target in BOOKS]


def test_white_space_around_a_sentence_is_no_part_of_it_and_a_newline_inside_is_a_space(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"source": "  a\nb ", "target": "c\t"}) + "\n")
    data = prepare_pairs(PairsConfig(path=str(path), valid=0.0), TokenizerConfig(kind="char"))
    assert spelled(data.train, data) == [("a b", "c")]


def test_lower_reads_both_sides_in_lower_case(tmp_path: Path) -> None:
    data = prepared(*write_two(tmp_path, BOOKS), lower=True)
    assert spelled(data.train, data) == [(source.lower(), target.lower()) for source, target in BOOKS]
    settings = PairsConfig(path="x", lower=True)
    assert sentence(" A Dog\n", settings) == "a dog"
    ids = encode_source(" A Dog\n", data.source_tokenizer, settings)
    assert data.source_tokenizer.decode(ids) == "a dog\n"


def test_a_share_is_held_out_and_words_are_learned_from_the_rest_only(tmp_path: Path) -> None:
    data, again = (prepared(*write_two(tmp_path, MANY), valid=0.25) for _ in range(2))
    assert data.valid is not None
    assert (len(data.train), len(data.valid)) == (30, 10)
    assert data.valid.texts is not None
    assert Counter(spelled(data.train, data)) + Counter(data.valid.texts) == Counter(MANY)
    assert all(source == "<unk> here" and target == "<unk> hier dan" for source, target in spelled(data.valid, data))
    assert data.train.source_ids.tolist() == again.train.source_ids.tolist()
    assert data.valid.texts != tuple(MANY[30:])


def test_a_source_that_is_held_out_is_not_trained_on_with_another_translation(tmp_path: Path) -> None:
    pairs = [(f"s{n // 5}", f"t{n}") for n in range(100)]
    data = prepared(*write_two(tmp_path, pairs), valid=0.3)
    assert data.valid is not None
    assert data.valid.texts is not None
    assert len(data.train) == 70
    assert not {source for source, _ in spelled(data.train, data)} & {source for source, _ in data.valid.texts}


def test_files_of_their_own_are_not_split_and_keep_their_text(tmp_path: Path) -> None:
    valid, test = write_two(tmp_path, [("A cat", "Een kat")], "v"), write_one(tmp_path / "x.tsv", [("Unheard of", "Ongehoord")])
    data = prepared(
        *write_two(tmp_path, BOOKS),
        valid=0.5,
        valid_path=str(valid[0]),
        valid_target_path=str(valid[1]),
        test_path=str(test),
    )
    assert spelled(data.train, data) == BOOKS
    assert spelled(data.valid, data) == [("A cat", "Een kat")]
    assert spelled(data.test, data) == [("<unk> <unk>", "<unk>")]
    assert data.test is not None
    assert data.test.texts == (("Unheard of", "Ongehoord"),)


def test_a_limit_drops_long_pairs_of_either_side_from_training_only_and_says_so(tmp_path: Path) -> None:
    pairs = [("a b c", "x"), ("a", "x y z"), ("a b", "x y"), ("a", "x")]
    source, target = write_two(tmp_path, pairs)
    data = PairsConfig(
        path=str(source), target_path=str(target), valid_path=str(source), valid_target_path=str(target), lower=True
    )
    limited = prepare_pairs(data, WORDS, limit=2)
    assert spelled(limited.train, limited) == [("a b", "x y"), ("a", "x")]
    assert limited.valid is not None
    assert len(limited.valid) == 4
    assert limited.notice is not None
    assert "2 of 4 training pairs (50 %) have more than 2 tokens on a side" in limited.notice
    assert prepare_pairs(data, WORDS, limit=3).notice is None
    with pytest.raises(ConfigError, match="a limit of 0 tokens"):
        prepare_pairs(data, WORDS, limit=0)
    alone = dataclasses.replace(data, valid_path=None, valid_target_path=None, valid=0.0)
    source.write_text("a b c\n" * 4)
    with pytest.raises(DataError, match="all 4 training pairs have more than 2 tokens on a side"):
        prepare_pairs(alone, WORDS, limit=2)


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "wordpiece", "unigram"])
def test_each_side_has_a_vocabulary_of_its_own_unless_it_is_joint(kind: Any, tmp_path: Path) -> None:
    source, target = write_two(tmp_path, MANY)
    data = PairsConfig(path=str(source), target_path=str(target), valid=0.0)
    apart = prepare_pairs(data, TokenizerConfig(kind=kind, vocab=300))
    joint = prepare_pairs(data, TokenizerConfig(kind=kind, vocab=300, joint=True))
    assert apart.source_tokenizer.sha256 != apart.tokenizer.sha256
    assert joint.source_tokenizer is joint.tokenizer
    for tokenizer in (apart.source_tokenizer, apart.tokenizer, joint.tokenizer):
        assert tokenizer.eos is not None
    assert spelled(apart.train, apart)[0] == MANY[0]
    assert spelled(joint.train, joint)[0] == MANY[0]


def test_one_pair_is_enough_for_an_eos(tmp_path: Path) -> None:
    source, target = write_two(tmp_path, [("a b", "c")])
    data = prepare_pairs(PairsConfig(path=str(source), target_path=str(target), valid=0.0), TokenizerConfig(kind="char"))
    assert spelled(data.train, data) == [("a b", "c")]


def test_tokenizers_that_exist_are_kept_and_one_without_eos_is_refused(tmp_path: Path) -> None:
    source, target = write_two(tmp_path, BOOKS)
    settings = PairsConfig(path=str(source), target_path=str(target), valid=0.0)
    made = prepare_pairs(settings, WORDS)
    again = prepare_pairs(settings, (made.source_tokenizer, made.tokenizer))
    assert again.tokenizer is made.tokenizer
    assert again.source_tokenizer is made.source_tokenizer
    endless = Tokenizer.train(TokenizerConfig(kind="char"), [], documents=1, counts=Counter("".join(map("".join, BOOKS))))
    with pytest.raises(DataError, match="this tokenizer has no <eos>"):
        prepare_pairs(settings, (endless, made.tokenizer))


def test_a_character_that_was_never_seen_is_said_with_its_line(tmp_path: Path) -> None:
    valid = write_two(tmp_path, [("a", "b")], "v")
    test = write_two(tmp_path, [("a", "b"), ("a", "β")], "x")
    train = write_two(tmp_path, [("a", "b")] * 2)
    data = PairsConfig(
        path=str(train[0]),
        target_path=str(train[1]),
        valid_path=str(valid[0]),
        valid_target_path=str(valid[1]),
        test_path=str(test[0]),
        test_target_path=str(test[1]),
    )
    with pytest.raises(DataError, match=r"x\.en:2: the text has characters that are not in the vocabulary: 'β'"):
        prepare_pairs(data, TokenizerConfig(kind="char"))


def test_files_of_unequal_length_are_refused_with_both_counts(tmp_path: Path) -> None:
    source, target = write_two(tmp_path, MANY)
    target.write_text("a\n" * 39)
    with pytest.raises(DataError, match=r"t\.en has 40 lines and .*t\.nl 39; expected equal numbers"):
        prepared(source, target)
    target.write_text("a\n" * 39 + "a")  # the last line needs no newline
    assert len(prepared(source, target).train) == 40


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "b"), ("", "c"), ("d", "")], r"2 of 3 records of .* a blank side{}: .*t\.en:2, .*t\.nl:3"),
        ([("a", "b"), ("c", " \t ")], r"1 of 2 records of .*t\.en has a blank side{}: .*t\.nl:2"),
    ],
)
def test_pairs_with_a_blank_side_are_skipped_or_refused_with_file_and_line(
    pairs: list[tuple[str, str]], message: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=message.format(" and (is|are) skipped")):
        assert len(prepared(*write_two(tmp_path, pairs)).train) == 1
    with pytest.raises(DataError, match=message.format("") + r"\. Complete or remove them"):
        prepared(*write_two(tmp_path, pairs), empty="refuse")


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.en is empty; expected sentence pairs"):
        prepared(*write_two(tmp_path, []))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "source\ttarget\na\t\n", r"t\.tsv is empty; expected sentence pairs"),
        ("t.tsv", "source\ttarget\na\n", r't\.tsv:2 has 1 cell; "target" is column 2 of 2'),
        ("t.tsv", "en\tnl\na\tb\n", r'has no column "source"; it has: en, nl\. Choose one with data\.source'),
        ("t.csv", "source,targets\na,b\n", r'no column "target"; .*data\.target\. Did you mean "targets"'),
        ("t.jsonl", '{"source": "a"}\n', r't\.jsonl:1 has no column "target"; .*data\.target'),
        ("t.jsonl", '{"source": "a", "target": 5}\n', r'"target" is a number; expected a string'),
        ("t.tsv", "source\ttarget\n", r"t\.tsv is empty; expected sentence pairs"),
        ("t.txt", "a\n", r"t\.txt is read as txt, one side of the pairs\. Set data\.target_path"),
        ("t.en", "a\n", r"Set data\.target_path to the other side"),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_read_is_said_with_its_place(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path / name)


def test_a_missing_column_of_parquet_is_named_with_its_own_setting(tmp_path: Path) -> None:
    path = write_one(tmp_path / "t.parquet", BOOKS, header=("source", "nl"))
    with pytest.raises(DataError, match=r'no column "target"; it has: source, nl\. Choose one with data\.target'):
        prepared(path)


def test_a_table_beside_another_file_is_refused_unless_its_lines_are_meant(tmp_path: Path) -> None:
    source, target = write_two(tmp_path, BOOKS)
    table = source.rename(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r't\.csv is csv.*Put both sides into one such file, or set data\.format = "txt"'):
        prepared(table, target)
    data = prepared(table, target, format="txt")
    assert spelled(data.train, data) == BOOKS


def test_holding_out_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leaves none of 2 pairs for training"):
        prepared(*write_two(tmp_path, BOOKS[:2]), valid=0.9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": "a"}, "data.text is a single text"),
        ({"name": "docs"}, 'data.name = "docs" has no translations'),
        ({"name": "ptb"}, 'data.name = "ptb" has no translations'),
        ({"name": "multi30k", "source": "fr"}, 'data.source is "fr"; the sides of multi30k are en and de'),
        ({"name": "scan", "split": "lenght"}, 'data.split is "lenght"; scan has: simple, length'),
        ({"name": "dates", "locales": ("xx_YY",)}, 'there is no locale "xx_YY"'),
        ({"name": "dates", "source": "de"}, "data.source is 'de', but dates has its own sides"),
    ],
)
def test_settings_that_give_no_pairs_are_refused(settings: dict[str, Any], message: str, mirror: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare_pairs(PairsConfig(**settings), WORDS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "multi30k", "locales": ("fr",)},
            """data.locales is ['fr'], which only applies to data.name = "dates". Remove it.""",
        ),
        ({"path": "a.tsv", "count": 100}, 'data.count is 100, which only applies to data.name = "dates", "chats", '),
        ({"name": "dates", "skills": ("tags",)}, "data.skills is ['tags'], which only applies to data.name = \"chats\""),
    ],
)
def test_settings_of_another_data_set_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PairsConfig(**settings)
    assert message in str(caught.value)


SMALL = {
    "multi30k": {
        "train.en": "A dog.\nA cat.\n",
        "train.de": "Ein Hund.\nEine Katze.\n",
        "val.en": "Dogs.\n",
        "val.de": "Hunde.\n",
        "test_2016_flickr.en": "Cats.\n",
        "test_2016_flickr.de": "Katzen.\n",
    },
    "tatoeba-en-nl": {"en-nl.tsv": "Hi.\tHoi.\nA dog.\tEen hond.\n"},
    "scan": {
        "simple_train.txt": "IN: walk twice OUT: I_WALK I_WALK\n",
        "simple_test.txt": "IN: run OUT: I_RUN\n",
        "length_train.txt": "IN: jump OUT: I_JUMP\n",
        "length_test.txt": "IN: walk OUT: I_WALK\n",
    },
}


def test_a_named_set_of_two_files_has_its_own_parts_in_either_direction(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="multi30k"), WORDS)
    assert spelled(data.train, data) == [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]
    assert data.valid is not None
    assert data.test is not None
    assert (data.valid.texts, data.test.texts) == ((("Dogs.", "Hunde."),), (("Cats.", "Katzen."),))
    for settings in ({"source": "de", "target": "en"}, {"source": "de"}, {"target": "en"}):
        back = prepare_pairs(PairsConfig(name="multi30k", **settings), WORDS)  # type: ignore[arg-type]
        assert spelled(back.train, back) == [("Ein Hund.", "A dog."), ("Eine Katze.", "A cat.")]
        assert back.test is not None
        assert back.test.texts == (("Katzen.", "Cats."),)


def test_a_named_table_needs_no_header(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="tatoeba-en-nl", valid=0.0), WORDS)
    assert spelled(data.train, data) == [("Hi.", "Hoi."), ("A dog.", "Een hond.")]
    back = prepare_pairs(PairsConfig(name="tatoeba-en-nl", source="nl", valid=0.0), WORDS)
    assert spelled(back.train, back) == [("Hoi.", "Hi."), ("Een hond.", "A dog.")]


def test_scan_has_two_splits(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="scan", valid=0.0), WORDS)
    assert spelled(data.train, data) == [("walk twice", "I_WALK I_WALK")]
    assert data.test is not None
    assert data.test.texts == (("run", "I_RUN"),)
    length = prepare_pairs(PairsConfig(name="scan", split="length", source="actions", valid=0.0), WORDS)
    assert spelled(length.train, length) == [("I_JUMP", "jump")]


@pytest.mark.parametrize("line", ["run OUT: I_RUN", "IN: run I_RUN", ""])
def test_a_line_of_scan_must_have_both_marks(line: str, mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="scan", valid=0.0), WORDS)
    (mirror / "mine.txt").write_text(f"IN: run OUT: I_RUN\n{line}\n")
    with pytest.raises(DataError) as caught:
        encode_pairs(mirror / "mine.txt", None, (data.source_tokenizer, data.tokenizer), PairsConfig(name="scan"))
    assert f'mine.txt:2 is {line!r}; expected "IN: a command OUT: its actions"' in str(caught.value)


def test_given_files_come_before_those_of_the_set(mirror: Path) -> None:
    valid = write_two(mirror, [("My dog", "Mein Hund")], "v")
    data = prepare_pairs(PairsConfig(name="multi30k", valid_path=str(valid[0]), valid_target_path=str(valid[1])), WORDS)
    assert data.valid is not None
    assert data.valid.texts == (("My dog", "Mein Hund"),)


def test_other_files_are_read_as_those_of_the_run(mirror: Path) -> None:
    settings = PairsConfig(name="multi30k", lower=True)
    data = prepare_pairs(settings, WORDS)
    tokenizers = data.source_tokenizer, data.tokenizer
    two = encode_pairs(*write_two(mirror, [("A Dog.", "Ein HUND.")], "mine"), tokenizers, settings)
    one = encode_pairs(write_one(mirror / "mine.csv", [("Ein HUND.", "A Dog.")], ("de", "en")), None, tokenizers, settings)
    assert two.texts == one.texts == (("a dog.", "ein hund."),)
    assert spelled(two, data) == spelled(one, data) == [("a dog.", "ein hund.")]


def test_the_fingerprint_is_of_both_sides(tmp_path: Path) -> None:
    sums = set()
    for n, pairs in enumerate(([("ab", "c")], [("a", "bc")], [("ab", "d")], [("ab", "c")])):
        sums.add(prepared(*write_two(tmp_path, pairs, str(n))).sha256)
    assert len(sums) == 3


def test_dates_need_no_files() -> None:
    pytest.importorskip("babel", reason="needs babel")
    data = prepare_pairs(PairsConfig(name="dates", locales=("fr", "de"), count=200), TokenizerConfig(kind="char"))
    assert data.valid is not None
    assert data.test is not None
    assert [len(part) for part in (data.train, data.valid, data.test)] == [200, 20, 20]
    assert all(len(target) == len("2026-11-14") for _, target in data.test.texts or ())


@pytest.mark.long
def test_the_real_sets_are_what_the_literature_counts(firth_data: Path) -> None:
    small = TokenizerConfig(kind="word", vocab=1000)
    data = prepare_pairs(PairsConfig(name="multi30k"), small)
    assert [len(part) for part in (data.train, data.valid, data.test) if part is not None] == [29000, 1014, 1000]
    for split, counts in (("simple", [16728, 4182]), ("length", [16990, 3920])):
        data = prepare_pairs(PairsConfig(name="scan", split=split, valid=0.0), small)
        assert [len(part) for part in (data.train, data.test) if part is not None] == counts
    data = prepare_pairs(PairsConfig(name="tatoeba-en-nl", valid=0.0), small)
    assert len(data.train) == 52_652


def test_a_small_set_of_dates_can_spell_all_its_parts() -> None:
    small = prepare_pairs(PairsConfig(name="dates", count=500), TokenizerConfig(kind="char"))
    assert small.test is not None
    assert len(small.test) == 50
