from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from firth.errors import DataError
from firth.text.readers.corpus import Corpus, find, scan


def documents(corpus: Corpus) -> list[str]:
    return [piece.text for piece in corpus.pieces()]


def refusal(path: Path, **settings: str) -> str:
    with pytest.raises(DataError) as caught:
        list(find(str(path), **settings).pieces())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def written(path: Path, columns: dict[str, object], **settings: object) -> Path:
    parquet.write_table(arrow.table(columns), path, **settings)
    return path


@pytest.mark.parametrize("kind", [arrow.string(), arrow.large_string(), arrow.dictionary(arrow.int32(), arrow.string())])
@pytest.mark.parametrize("rows", [1, 300, 5000])
def test_each_row_is_a_document_whatever_the_row_groups(tmp_path: Path, kind: arrow.DataType, rows: int) -> None:
    texts = [f"één {i}\n" for i in range(1, 1000)]
    path = written(tmp_path / "a.parquet", {"id": range(1, 1000), "text": arrow.array(texts).cast(kind)}, row_group_size=rows)
    assert documents(find(str(path))) == texts


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_a_scan_does_not_see_how_a_parquet_is_packed(tmp_path: Path, compression: str) -> None:
    texts = ["one\r\ntwo", "three"]
    path = written(tmp_path / "a.parquet", {"text": texts}, compression=compression)
    (tmp_path / "b.jsonl").write_text('{"text": "one\\ntwo"}\n{"text": "three"}\n')
    assert scan(find(str(path))) == scan(find(str(tmp_path / "b.jsonl")))


@pytest.mark.parametrize("row_group", [400, 10_000])
def test_a_parquet_four_times_as_large_takes_no_more_memory(tmp_path: Path, row_group: int) -> None:
    def most_memory(rows: int) -> int:
        texts = [f"{i:06} " * 1000 for i in range(rows)]
        path = written(
            tmp_path / "a.parquet", {"text": texts}, row_group_size=row_group, compression="none", use_dictionary=False
        )
        before, most = arrow.total_allocated_bytes(), 0
        for piece, text in zip(find(str(path)).pieces(), texts, strict=True):
            assert piece.text == text
            most = max(most, arrow.total_allocated_bytes() - before)
        assert 0 < most < path.stat().st_size
        return most

    assert most_memory(8000) <= most_memory(2000)


def test_the_format_may_be_named_where_the_suffix_does_not_tell(tmp_path: Path) -> None:
    path = written(tmp_path / "part-0000", {"body": ["one", "two"]})
    assert documents(find(str(path), format="parquet", field="body")) == ["one", "two"]
    written(tmp_path / "b.parquet", {"text": ["three"]})
    assert documents(find(str(tmp_path))) == ["three"]


def test_a_parquet_without_the_column_lists_the_columns(tmp_path: Path) -> None:
    message = refusal(written(tmp_path / "a.parquet", {"txt": ["x"], "label": [1]}))
    assert 'a.parquet has no column "text"; it has: txt, label. Choose one with data.field' in message
    assert 'Did you mean "txt"?' in message


def test_a_column_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"text": [1, 2], "lists": [["a"], []]})
    assert 'row 1: "text" is a number; expected a string. Correct it, or choose another column with data.field' in refusal(path)
    assert 'row 1: "lists" is a list; expected a string' in refusal(path, field="lists")


def test_a_null_is_a_record_without_text_and_named_by_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x"] * 300 + [None]})
    with pytest.warns(UserWarning, match=r"1 of 301 records .* has no text and is skipped: .*a\.parquet, row 301"):
        assert scan(find(str(path))).documents == 300


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    raw = arrow.array([b"fine", b"caf\xe9"], arrow.binary())
    text = arrow.Array.from_buffers(arrow.string(), 2, raw.buffers())
    assert "is not UTF-8" in refusal(written(tmp_path / "a.parquet", {"text": text}))


@pytest.mark.parametrize("damage", ["no parquet", "cut short", "empty", "bytes changed"])
def test_a_damaged_parquet_is_one_line(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "a.parquet", {"text": [str(i) * 50 for i in range(999)]}, compression="zstd")
    whole = path.read_bytes()
    path.write_bytes(
        {
            "no parquet": b"just a text\n" * 9,
            "cut short": whole[: len(whole) // 2],
            "empty": b"",
            "bytes changed": whole[:30] + bytes(200) + whole[230:],
        }[damage]
    )
    assert "as parquet" in refusal(path)


def test_progress_through_a_parquet_ends_at_its_size(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x" * 100] * 1000}, row_group_size=100)
    seen: list[int] = []
    list(find(str(path)).pieces(seen.append))
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == path.stat().st_size


def test_without_pyarrow_the_error_is_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refusal(path).endswith("pip install pyarrow")
