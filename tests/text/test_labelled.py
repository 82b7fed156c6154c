"""Labelled texts: how they are read and split, and that batches of them depend on seed and position alone."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from reviews import REVIEWS, SORTED, write

from firth.errors import DataError
from firth.text.batches.examples import Examples
from firth.text.batches.padding import padded
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.labelled import Labelled, encode_labelled, prepare_labelled, read_texts
from firth.text.data_set import DATA_SETS, File
from firth.text.tokenizers.tokenizer import Tokenizer

WORDS = TokenizerConfig(kind="word")


def prepared(path: Path, **settings: object) -> Labelled:
    return prepare_labelled(LabelledConfig(path=str(path), **settings), WORDS)  # type: ignore[arg-type]


def spelled(examples: Examples, data: Labelled) -> list[tuple[str, str]]:
    """The texts and labels, decoded."""
    return [
        (data.tokenizer.decode(examples.ids[start:end]), data.labels[label])
        for start, end, label in zip(examples.starts[:-1], examples.starts[1:], examples.label_N, strict=True)
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_each_format_gives_the_same_examples(suffix: str, tmp_path: Path) -> None:
    data = prepared(write(tmp_path / f"reviews.{suffix}"), valid=0.0)
    assert data.labels == ("bad", "good")
    assert spelled(data.train, data) == SORTED
    assert data.valid is None
    assert data.test is None


def test_a_quoted_cell_of_csv_may_hold_commas_and_newlines(tmp_path: Path) -> None:
    data = prepared(write(tmp_path / "r.csv", [("good, really\ngood", "1"), ('"bad"', "0")]), valid=0.0)
    assert spelled(data.train, data) == [("good, really\ngood", "1"), ('"bad"', "0")]


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", header=("review", "stars"))
    data = prepared(path, field="review", label="stars", valid=0.0)
    assert spelled(data.train, data) == SORTED


def test_numbers_and_booleans_of_json_are_labels_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"text": "a", "label": 10}\n{"text": "b", "label": 9}\n{"text": "c", "label": 1.5}\n')
    assert prepared(path, valid=0.0).labels == ("1.5", "9", "10")  # by value, not by spelling
    path.write_text('{"text": "a", "label": true}\n{"text": "b", "label": "no"}\n')
    assert prepared(path, valid=0.0).labels == ("no", "true")


def test_a_share_held_out_of_a_sorted_file_has_all_its_labels(tmp_path: Path) -> None:
    data = prepared(write(tmp_path / "r.csv"), valid=0.25)
    assert data.valid is not None
    assert len(data.train) == 60
    assert len(data.valid) == 20
    assert set(data.valid.label_N.tolist()) == {0, 1}
    assert Counter(spelled(data.train, data)) + Counter(spelled(data.valid, data)) == Counter(SORTED)


def test_the_split_is_the_same_every_time_and_words_are_learned_from_the_training_part_only(tmp_path: Path) -> None:
    reviews = [(f"word{n}", str(n % 2)) for n in range(40)]
    path = write(tmp_path / "r.csv", reviews)
    one, other = prepared(path), prepared(path)
    assert np.array_equal(one.train.ids, other.train.ids)
    assert one.valid is not None
    assert one.tokenizer.vocab == 36 + 2  # <eos> and <unk>
    assert (one.valid.ids == one.tokenizer.unknown).all()


def test_files_of_their_own_are_not_split(tmp_path: Path) -> None:
    train, valid = write(tmp_path / "r.csv"), write(tmp_path / "v.csv", [("a dull film", "bad")])
    test = write(tmp_path / "t.csv", [("unheard of", "good")])
    data = prepared(train, valid_path=str(valid), test_path=str(test))
    assert data.valid is not None
    assert data.test is not None
    assert len(data.train) == len(SORTED)
    assert spelled(data.valid, data) == [("a dull film", "bad")]
    assert spelled(data.test, data) == [("<unk> <unk>", "good")]


def test_classes_can_be_given_in_an_order(tmp_path: Path) -> None:
    data = prepared(write(tmp_path / "r.csv"), labels=("good", "bad"), valid=0.0)
    assert data.labels == ("good", "bad")
    assert spelled(data.train, data) == SORTED


def test_the_fingerprint_is_of_texts_and_labels(tmp_path: Path) -> None:
    sums = {
        prepared(write(tmp_path / name, reviews)).sha256
        for name, reviews in (
            ("a.csv", REVIEWS),
            ("b.tsv", REVIEWS),
            ("c.csv", [(REVIEWS[0][0], "bad"), *REVIEWS[1:]]),
            ("d.csv", [("a great  film", "good"), *REVIEWS[1:]]),
        )
    }
    assert len(sums) == 3  # a and b hold the same


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "r.csv",
            "text,stars\na,1\n",
            r'r\.csv has no column "label"; it has: text, stars\. Choose one with data\.label, or name the col',
        ),
        ("r.csv", "texts,label\na,1\n", r'no column "text"; .*data\.field\. Did you mean "texts"'),
        ("r.jsonl", '{"text": "a"}\n', r'r\.jsonl:1 has no column "label"; it has: text\. Choose one with data\.label'),
        ("r.jsonl", '{"text": "a", "label": null}\n', r"1 of 1 records of .*r\.jsonl has no label: .*r\.jsonl:1\."),
        ("r.jsonl", '{"text": 5, "label": 1}\n', r'"text" is a number; expected a string'),
        ("r.csv", "text,label\na,1\nb\n", r'r\.csv:3 has 1 cell; "label" is column 2 of 2'),
        ("r.csv", "text,label\na,1\nb, \nc,\n", r"2 of 3 records of .* have no label: .*r\.csv:3, .*r\.csv:4\. Complete or rem"),
        ("r.csv", "text,label\n  ,1\n,0\n", "is empty; expected texts with labels"),
        ("r.csv", "text,label\na,1\nb,1\n", r'all 2 texts of .*r\.csv are labelled "1"; expected two classes or more'),
        ("r.csv", "text,label\n", "is empty; expected texts with labels"),
        ("r.csv", "", "is empty; expected texts with labels"),
        ("r.txt", "a\tgood\n", r"is read as txt, which has no columns .*Use a jsonl, csv, tsv or parquet file"),
        ("r.parquet", "", r"cannot read .*r\.parquet as parquet"),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_read_is_said_with_its_place(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path / name)


BLANK = "text,label\n" + "".join(f"{'  ' if n % 100 == 7 else f'text {n}'},{n % 2}\n" for n in range(1000))


def test_records_without_text_are_skipped_with_one_warning_or_refused_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(BLANK)
    problem = r"10 of 1,000 records of .*r\.csv have no text{}: .*r\.csv:9, .*r\.csv:109, .*r\.csv:209, …"
    with pytest.warns(UserWarning, match=problem.format(" and are skipped")) as told:
        data = prepared(tmp_path / "r.csv", valid=0.0)
    assert (len(told), len(data.train)) == (1, 990)
    with pytest.raises(DataError, match=problem.format("") + r'\. Complete or remove them, or set data\.empty = "skip"'):
        prepared(tmp_path / "r.csv", empty="refuse")
    (tmp_path / "full.csv").write_text("\n".join(line for line in BLANK.splitlines() if not line.startswith(" ")))
    assert prepared(tmp_path / "full.csv", valid=0.0, empty="refuse").sha256 == data.sha256


@pytest.mark.parametrize("record", ['{"text": null, "label": "good"}', '{"text": " ", "label": null}'])
def test_a_missing_text_is_a_blank_one(record: str, tmp_path: Path) -> None:
    lines = ['{"text": "a", "label": "good"}', record, '{"text": "b", "label": "bad"}']
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=r"1 of 3 records of .* has no text and is skipped: .*r\.jsonl:2$"):
        data = prepared(tmp_path / "r.jsonl", valid=0.0)
    assert len(data.train) == 2
    other = LabelledConfig(path="x.csv", labels=data.labels)
    with pytest.warns(UserWarning, match="1 of 3 records"):
        assert len(encode_labelled(tmp_path / "r.jsonl", data.tokenizer, other)) == 2


def test_a_label_that_training_never_saw_is_refused_with_its_line(tmp_path: Path) -> None:
    train, valid = write(tmp_path / "r.csv"), write(tmp_path / "v.csv", [("a", "bad"), ("b", "so-so")])
    with pytest.raises(DataError, match=r'v\.csv:3 is labelled "so-so"; the classes are bad, good'):
        prepared(train, valid_path=str(valid))
    with pytest.raises(DataError, match=r'v\.csv:3 is labelled "so-so"; the classes are bad, good'):
        prepared(train, valid=0.0, test_path=str(valid))
    with pytest.raises(DataError, match=r'v\.csv:3 is labelled "so-so"'):
        encode_labelled(valid, prepared(train).tokenizer, LabelledConfig(path=str(train), labels=("bad", "good")))


def test_holding_out_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leaves none of 2 examples"):
        prepared(write(tmp_path / "r.csv", [("a", "0"), ("b", "1")]), valid=0.9)


@pytest.fixture
def small_sst2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror whose sst2 is a few lines long."""
    (tmp_path / "sst2").mkdir()
    files = []
    for name, reviews in (
        ("train.tsv", [("good", "1"), ("bad", "0"), ('"quoted', "0")]),
        ("dev.tsv", [("bad", "0")]),
        ("test.tsv", [("good", "1")]),
    ):
        content = write(tmp_path / "sst2" / name, reviews, header=None).read_bytes()
        files.append(File(name, len(content), hashlib.sha256(content).hexdigest(), None))
    monkeypatch.setitem(DATA_SETS._of, "sst2", dataclasses.replace(DATA_SETS["sst2"], files=tuple(files)))
    monkeypatch.setenv("FIRTH_DATA", str(tmp_path))
    return tmp_path / "sst2"


def test_a_named_set_needs_no_header_and_its_labels_have_their_meaning(small_sst2: Path) -> None:
    data = prepare_labelled(LabelledConfig(name="sst2"), WORDS)
    assert data.valid is not None
    assert data.test is not None
    assert data.labels == ("negative", "positive")
    assert spelled(data.train, data) == [("good", "positive"), ("bad", "negative"), ('"quoted', "negative")]
    assert spelled(data.valid, data) == [("bad", "negative")]
    assert spelled(data.test, data) == [("good", "positive")]


def test_another_file_is_read_as_those_of_the_set_with_a_header_or_without(small_sst2: Path, tmp_path: Path) -> None:
    data = prepare_labelled(LabelledConfig(name="sst2"), WORDS)
    settings = LabelledConfig(name="sst2", labels=data.labels)
    mine = write(tmp_path / "mine.csv", [("positive", "bad"), ("0", "good")], header=("label", "text"))
    assert spelled(encode_labelled(mine, data.tokenizer, settings), data) == [("bad", "positive"), ("good", "negative")]
    assert spelled(encode_labelled(small_sst2 / "train.tsv", data.tokenizer, settings), data) == spelled(data.train, data)
    assert list(read_texts(small_sst2 / "train.tsv", settings)) == ["good", "bad", '"quoted']
    assert list(read_texts(mine, settings)) == ["bad", "good"]


def test_the_real_set_is_what_the_literature_counts(firth_data: Path) -> None:
    data = prepare_labelled(LabelledConfig(name="sst2"), WORDS)
    assert [len(part) for part in (data.train, data.valid, data.test) if part is not None] == [6920, 872, 1821]
    assert data.labels == ("negative", "positive")


def numbered(count: int) -> Examples:
    """Text n is n, n times over and at least once; its label is n % 3."""
    texts = [np.full(max(1, n), n, np.uint16) for n in range(count)]
    return Examples(np.concatenate(texts), np.cumsum([0, *map(len, texts)]), np.arange(count, dtype=np.int64) % 3)


def test_a_batch_is_padded_to_its_longest_text_and_knows_the_lengths() -> None:
    batch = numbered(5).batch(np.array([2, 0, 3]))
    assert batch.token_BT.tolist() == [[2, 2, 0], [0, 0, 0], [3, 3, 3]]
    assert (batch.length_B.tolist(), batch.label_B.tolist(), batch.tokens) == ([2, 1, 3], [2, 0, 0], 6)


def test_padding_nothing_gives_nothing() -> None:
    token_BT, length_B = padded([])
    assert (token_BT.shape, length_B.shape) == ((0, 0), (0,))


def test_each_epoch_has_every_example_once_in_an_order_of_its_own() -> None:
    batches = numbered(10).bucketed(batch=5, seed=3)
    epochs = [[int(row[0]) for _ in range(2) for row in batches.next().token_BT] for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert epochs[0] != list(range(10))


def test_fewer_examples_than_a_batch_are_drawn_again_each_as_often_as_any() -> None:
    batches = numbered(3).bucketed(batch=7, seed=0)
    seen = [int(row[0]) for _ in range(3) for row in batches.next().token_BT]
    assert Counter(seen) == {0: 7, 1: 7, 2: 7}


def test_a_batch_holds_texts_of_similar_length_and_batches_come_in_any_order() -> None:
    examples = numbered(64)
    batches = examples.bucketed(batch=8, seed=0)
    lengths = [batches.next().length_B for _ in range(8)]
    assert all(len(length_B) == 8 and length_B.max() - length_B.min() <= 7 for length_B in lengths)
    longest = [int(length_B.max()) for length_B in lengths]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_what_fills_no_batch_rests_and_other_texts_do_in_the_next_epoch() -> None:
    batches = numbered(10).bucketed(batch=4, seed=0)
    epochs = [{int(row[0]) for _ in range(2) for row in batches.next().token_BT} for _ in range(20)]
    assert all(len(epoch) == 8 for epoch in epochs)
    assert set().union(*(set(range(10)) - epoch for epoch in epochs)) == set(range(10))  # each has rested once


def test_equally_long_texts_meet_others_in_each_epoch() -> None:
    examples = Examples(np.arange(40, dtype=np.uint16), np.arange(41), np.zeros(40, np.int64))
    batches = examples.bucketed(batch=4, seed=0)
    epochs = [{frozenset(batches.next().token_BT[:, 0].tolist()) for _ in range(10)} for _ in range(3)]
    assert not epochs[0] & epochs[1]
    assert not epochs[1] & epochs[2]


def test_a_batch_depends_on_seed_and_position_alone() -> None:
    batches = numbered(9).bucketed(batch=4, seed=1)
    straight = [batches.next().token_BT.tolist() for _ in range(6)]
    again = numbered(9).bucketed(batch=4, seed=1)
    again.seek(4)
    assert again.next().token_BT.tolist() == straight[4]
    assert again.position == 5
    other = numbered(9).bucketed(batch=4, seed=2)
    assert [other.next().token_BT.tolist() for _ in range(6)] != straight


def test_a_sweep_has_every_example_once_by_length_and_says_which() -> None:
    batches = list(numbered(5).sweep(2))
    assert [batch.token_BT[:, 0].tolist() for _, batch in batches] == [[4, 3], [2, 0], [1]]  # 0 and 1 have one token each
    assert [row_B.tolist() for row_B, _ in batches] == [[4, 3], [2, 0], [1]]


def test_texts_beyond_the_limit_are_left_out_of_training_and_counted(tmp_path: Path) -> None:
    reviews = [("a " * n, str(n % 2)) for n in range(1, 11)]
    path, valid = write(tmp_path / "r.csv", reviews), write(tmp_path / "v.csv", [("a " * 30, "0")])
    data = prepare_labelled(LabelledConfig(path=str(path), valid_path=str(valid)), WORDS, limit=7)
    assert data.train.length_N.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert data.train.label_N.tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert data.valid is not None
    assert data.valid.length_N.tolist() == [30]
    advice = "Set a larger model.context to keep them."
    assert data.notice == f"3 of 10 training texts of {path} (30 %) have more than 7 tokens and are left out. {advice}"
    assert prepare_labelled(LabelledConfig(path=str(path), valid=0.0), WORDS, limit=10).notice is None
    with pytest.raises(DataError, match=r"all 1 training texts of .*v\.csv have more than 7 tokens"):
        prepare_labelled(LabelledConfig(path=str(valid), valid=0.0, labels=("0", "1")), WORDS, limit=7)


def test_words_that_are_lent_stand_behind_those_of_the_training_part(tmp_path: Path) -> None:
    path, test = write(tmp_path / "r.csv", [("b b a", "0"), ("b c", "1")]), write(tmp_path / "t.csv", [("e a d f", "0")])
    lent, data = ["e", "a", "D", "new york"], LabelledConfig(path=str(path), test_path=str(test), valid=0.0)

    def read(**settings: object) -> list[tuple[str, str]]:
        labelled = prepare_labelled(data, TokenizerConfig(kind="word", **settings), also=lent)  # type: ignore[arg-type]
        assert labelled.test is not None
        return spelled(labelled.test, labelled)

    assert read(lower=True) == [("e a d <unk>", "0")]
    assert read() == [("e a <unk> <unk>", "0")]
    assert read(min_count=2) == [("e a <unk> <unk>", "0")]  # seen once, and lent
    assert read(vocab=6) == [("e a <unk> <unk>", "0")]  # <eos>, <unk>, a, b, c, and one more
    assert read(vocab=5) == [("<unk> a <unk> <unk>", "0")]


def test_a_tokenizer_that_exists_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv")
    made = prepared(path).tokenizer
    again = prepare_labelled(LabelledConfig(path=str(path)), Tokenizer.from_json(made.to_json()))
    assert again.tokenizer.sha256 == made.sha256
