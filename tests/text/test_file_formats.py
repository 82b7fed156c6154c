"""One way to read every format: the same records give the same data, whatever file they are in."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet
from shares import half

from firth.config import choices
from firth.errors import DataError
from firth.text.config import DataConfig, LabelledConfig, PairsConfig, QuestionsConfig, TokenizerConfig
from firth.text.data.labelled import prepare_labelled, read_texts
from firth.text.data.pairs import prepare_pairs
from firth.text.data.questions import prepare_questions
from firth.text.data.running_text import prepare
from firth.text.readers.formats import by_suffix, documents, is_table, records
from firth.text.readers.reader import READERS, Column, Format, TableReader

NAMES = ("id", "text", "label", "source", "target")
ROWS = [(str(n), f"één text, number {n}", str(n % 3), f'the "source" {n % 7}', f"das Ziel {n}") for n in range(40)]
WORDS = TokenizerConfig(kind="word")
TEXT_FILES = ("jsonl", "csv", "tsv")
PACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
FILES = [f"r.{suffix}{packed}" for suffix in TEXT_FILES for packed in PACKED] + ["r.parquet"]


def as_csv(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([names, *rows])
    return buffer.getvalue()


def write(path: Path, rows: list[tuple[str, ...]] = ROWS, names: tuple[str, ...] = NAMES) -> Path:
    """The records in the format of the suffix, compressed as the last suffix announces."""
    if path.suffix == ".parquet":
        parquet.write_table(arrow.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)
        return path
    text = {
        "jsonl": lambda: "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows),
        "csv": lambda: as_csv(names, rows),
        "tsv": lambda: "".join("\t".join(row) + "\n" for row in [names, *rows]),
    }[path.name.split(".")[1]]()
    path.write_bytes(PACKED[path.suffix if path.suffix in PACKED else ""](text.encode()))
    return path


def test_the_formats_are_those_that_a_recipe_can_name() -> None:
    assert {*READERS.kinds, "auto"} == {*choices(Format)}


@pytest.mark.parametrize("name", FILES)
def test_every_table_gives_the_same_records(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name)
    read = list(records(path, [Column("target"), Column("text")]))
    assert [texts for _, texts in read] == [[row[4], row[1]] for row in ROWS]
    assert len({where for where, _ in read}) == len(ROWS)
    assert all(where.startswith(str(path)) for where, _ in read)
    assert is_table(path)


@pytest.mark.parametrize("name", half(FILES))
def test_every_table_gives_the_same_running_text(name: str, tmp_path: Path) -> None:
    path, plain = write(tmp_path / name), write(tmp_path / "plain.jsonl")
    assert [piece.text for piece in documents(path, "auto", "text")] == [row[1] for row in ROWS]
    one, other = (prepare(DataConfig(path=str(file), field="target"), WORDS) for file in (path, plain))
    assert one.sha256 == other.sha256
    assert np.array_equal(one.train.ids, other.train.ids)


@pytest.mark.parametrize("name", FILES)
def test_every_table_gives_the_same_labelled_texts(name: str, tmp_path: Path) -> None:
    path, plain = write(tmp_path / name), write(tmp_path / "plain.csv")
    one, other = (prepare_labelled(LabelledConfig(path=str(file)), WORDS) for file in (path, plain))
    assert one.sha256 == other.sha256
    assert one.labels == other.labels == ("0", "1", "2")
    assert np.array_equal(one.train.ids, other.train.ids)
    assert np.array_equal(one.train.label_N, other.train.label_N)
    assert list(read_texts(path, LabelledConfig(path=str(path)))) == [row[1] for row in ROWS]


@pytest.mark.parametrize("name", FILES)
def test_every_table_gives_the_same_pairs(name: str, tmp_path: Path) -> None:
    path, plain = write(tmp_path / name), write(tmp_path / "plain.tsv")
    one, other = (prepare_pairs(PairsConfig(path=str(file)), WORDS) for file in (path, plain))
    assert one.sha256 == other.sha256
    assert one.valid is not None
    assert other.valid is not None
    assert one.valid.texts == other.valid.texts
    assert np.array_equal(one.train.source_ids, other.train.source_ids)
    assert np.array_equal(one.train.target_ids, other.train.target_ids)


@pytest.mark.parametrize("name", FILES)
def test_every_table_gives_the_same_questions(name: str, tmp_path: Path) -> None:
    rows = [(f"{n} cats and 7 dogs", f"how many, {n}?", "7", str(f"{n} cats and 7 dogs".rindex("7"))) for n in range(7, 30)]
    names = ("context", "question", "answer", "answer_start")
    path, plain = write(tmp_path / name, rows, names), write(tmp_path / "plain.csv", rows, names)
    one, other = (prepare_questions(QuestionsConfig(path=str(file)), WORDS, 32) for file in (path, plain))
    assert one.sha256 == other.sha256
    assert np.array_equal(one.train.start_N, other.train.start_N)
    assert all(asked.answers[0].start == asked.context.rindex("7") for asked in one.train.questions)


def test_parquet_reads_the_nested_answers_of_squad_and_labels_that_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    answers = [{"text": ["cat", "a cat"], "answer_start": [2, 0]}] * 4
    columns = {"context": [f"a cat {n}" for n in range(4)], "question": ["what?"] * 4, "answers": answers, "label": [0, 1, 1, 0]}
    parquet.write_table(arrow.table(columns), path)
    assert prepare_questions(QuestionsConfig(path=str(path), valid=0.0), WORDS, 32).train.questions[3].answers[1].text == "a cat"
    assert prepare_labelled(LabelledConfig(path=str(path), field="context", valid=0.0), WORDS).labels == ("0", "1")


@pytest.mark.parametrize("format", [one.kind for one in READERS if issubclass(one, TableReader)])
def test_a_format_may_be_set_where_the_suffix_is_unknown(format: Format, tmp_path: Path) -> None:
    path = write(tmp_path / f"r.{format}").rename(tmp_path / "part-0000")
    assert by_suffix(path) is None
    assert [texts for _, texts in records(path, [Column("id")], format)] == [[row[0]] for row in ROWS]


@pytest.mark.parametrize("name", FILES)
def test_an_absent_column_is_named_with_the_file_and_the_setting(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name)
    with pytest.raises(DataError) as caught:
        list(records(path, [Column("labels", "data.label")]))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert 'has no column "labels"; it has: id, text, label, source, target. Choose one with data.label.' in message
    assert 'Did you mean "label"?' in message


def test_text_that_begins_like_bzip2_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BZh9 is how bzip2 begins")
    assert [piece.text for piece in documents(tmp_path / "a.txt", "auto", "text")] == ["BZh9 is how bzip2 begins"]
    (tmp_path / "b.txt").write_bytes(bz2.compress(b""))
    assert list(documents(tmp_path / "b.txt", "auto", "text")) == []


@pytest.mark.parametrize("name", FILES)
def test_a_table_whose_suffix_is_unknown_is_read_where_columns_are_asked_for(name: str, tmp_path: Path) -> None:
    known = write(tmp_path / name)
    packed = known.suffix if known.suffix in PACKED else ""
    unknown = known.rename(tmp_path / f"eng.train{packed}")
    columns = [Column("text"), Column("label")]
    assert [record.texts for record in records(unknown, columns)] == [[row[1], row[2]] for row in ROWS]
    read = "".join(piece.text for piece in documents(unknown, "auto", "source"))
    assert read == "".join(row[3] for row in ROWS)
    if known.suffix == ".tsv":
        plain = "".join(piece.text for piece in documents(unknown, "auto", "text"))
        assert plain == unknown.read_text(encoding="utf-8"), "running text, where nothing says otherwise"
