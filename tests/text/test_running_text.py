from __future__ import annotations

import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import ConfigError, DataError
from firth.text.config import DataConfig, RunningTextConfig, TokenizerConfig
from firth.text.data.running_text import Prepared, encode_file, prepare, read_text

CHAR, WORD, BPE = TokenizerConfig("char"), TokenizerConfig("word"), TokenizerConfig("bpe", vocab=300)


def texts(prepared: Prepared) -> list[str]:
    parts = (prepared.train, prepared.valid, prepared.test)
    return [prepared.tokenizer.decode(np.asarray(part.ids)) for part in parts if part is not None]


def test_the_split_is_at_the_very_character() -> None:
    text = "".join(chr(97 + i % 26) for i in range(1009))
    prepared = prepare(DataConfig(text=text, valid=0.3), CHAR)
    assert texts(prepared) == [text[: int(0.7 * 1009)], text[int(0.7 * 1009) :]]
    assert prepared.train.characters == int(0.7 * 1009)


@hypothesis.settings(max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=50), st.floats(0, 0.99))
def test_training_and_held_out_part_make_up_the_text(text: str, valid: float) -> None:
    for config in (CHAR, BPE):
        assert "".join(texts(prepare(DataConfig(text=text, valid=valid), config))) == text


def test_nothing_is_held_out_when_valid_is_zero() -> None:
    prepared = prepare(DataConfig(text="hello", valid=0), CHAR)
    assert prepared.valid is None
    assert texts(prepared) == ["hello"]
    assert prepared.tokenizer.vocab == 4


def test_separate_files_are_used_whole(tmp_path: Path) -> None:
    for name, text in (("train", "abab"), ("valid", "ac"), ("test", "cb")):
        (tmp_path / f"{name}.txt").write_text(text)
    paths = {"path": "train", "valid_path": "valid", "test_path": "test"}
    prepared = prepare(DataConfig(**{key: str(tmp_path / f"{name}.txt") for key, name in paths.items()}), CHAR)  # type: ignore[arg-type]
    assert texts(prepared) == ["abab", "ac", "cb"]
    (tmp_path / "test.txt").write_text("z")
    with pytest.raises(DataError, match="not in the vocabulary: 'z'"):
        prepare(DataConfig(**{key: str(tmp_path / f"{name}.txt") for key, name in paths.items()}), CHAR)  # type: ignore[arg-type]


def test_words_are_learned_from_the_training_part_alone() -> None:
    prepared = prepare(DataConfig(text="seen seen seen\n" * 9 + "novel novel now", valid=0.1), WORD)
    assert prepared.valid is not None
    assert prepared.tokenizer.unseen("novel seen") == ["novel"]
    assert prepared.tokenizer.decode(np.asarray(prepared.valid.ids)).count("<unk>") == 3


def test_records_are_documents_and_end_in_eos(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in ("one", "two")))
    prepared = prepare(DataConfig(path=str(tmp_path / "a.jsonl"), field="body", valid=0), CHAR)
    assert prepared.documents == 2
    assert texts(prepared) == ["one\ntwo\n"]
    assert prepared.train.ids.tolist().count(prepared.tokenizer.eos) == 2
    assert (prepared.train.characters, prepared.train.count) == (6, 8)


def test_of_a_table_without_headings_the_text_is_read_and_not_the_label(tmp_path: Path) -> None:
    (tmp_path / "reviews.tsv").write_text("a fine film\t1\nno\t0\n")
    prepared = prepare(DataConfig(path=str(tmp_path / "reviews.tsv"), columns=("text", "label"), valid=0), WORD)
    assert texts(prepared) == ["a fine film\nno\n"]


def test_a_tokenizer_that_exists_is_used_as_it_is() -> None:
    first = prepare(DataConfig(text="hello", valid=0), CHAR)
    second = prepare(DataConfig(text="hole", valid=0), first.tokenizer)
    assert second.tokenizer is first.tokenizer
    assert second.train.ids.tolist() == first.tokenizer.encode("hole").tolist()


def test_standard_input_leaves_no_copy_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello hello")))
    assert texts(prepare(DataConfig(path="-", valid=0), CHAR)) == ["hello hello"]
    assert {path.name.split("-")[0] for path in cache.iterdir()} == {"tokens"}


def test_more_text_comes_first_and_the_end_of_the_main_text_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "main.txt").write_text("main text that is split")
    (tmp_path / "more.txt").write_text("more")
    (tmp_path / "train.tsv").write_text("a film\t1\n")
    monkeypatch.setattr("firth.text.datasets.download.local", lambda name, progress: tmp_path)
    data = RunningTextConfig(path=str(tmp_path / "main.txt"), more=(str(tmp_path / "more.txt"), "sst2"), valid=0.25)
    prepared = prepare(data, TokenizerConfig(kind="char"))
    assert prepared.valid is not None
    assert texts(prepared) == ["more\na film\nmain text that", " is split\n"]
    assert prepared.documents == 3


def test_more_needs_a_text_of_files() -> None:
    with pytest.raises(ConfigError, match=r"data.more needs data.path or data.name, not data.text"):
        prepare(RunningTextConfig(text="a text", more=("x.txt",)), TokenizerConfig(kind="char"))
    with pytest.raises(ConfigError, match=r'data.more contains "multi30k", which is not running text'):
        prepare(RunningTextConfig(text="a text", more=("multi30k",)), TokenizerConfig(kind="char"))
    with pytest.raises(ConfigError, match=r"data.more needs a text that can be read again"):
        RunningTextConfig(path="-", more=("x.txt",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "a.txt", "field": "body"}, 'data.field is "body", but {}a.txt has no columns. Remove it, or set data.format.'),
        ({"path": "a.txt", "columns": ("body",)}, "data.columns is ['body'], but {}a.txt has no columns"),
        ({"text": "a", "field": "body"}, 'data.field is "body", but data.text has no columns'),
        pytest.param(
            {"name": "docs", "field": "body"},
            'data.field is "body", but ',
            marks=pytest.mark.long,  # collects the corpus first
        ),
    ],
)
def test_columns_of_plain_text_are_refused(settings: dict[str, Any], message: str, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.txt").write_text("hello, you")
    if "path" in settings:
        settings = settings | {"path": str(tmp_path / settings["path"])}
    with pytest.raises(ConfigError, match=re.escape(message.format(f"{tmp_path}/"))):
        prepare(RunningTextConfig(**settings), CHAR)


def test_a_field_is_for_the_tables_among_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("plain")
    (tmp_path / "b.jsonl").write_text('{"body": "record"}\n')
    both = RunningTextConfig(path=str(tmp_path), field="body", valid=0)
    more = RunningTextConfig(path=str(tmp_path / "a.txt"), more=(str(tmp_path / "b.jsonl"),), field="body", valid=0)
    assert [texts(prepare(data, CHAR)) for data in (both, more)] == [["plain\nrecord\n"], ["record\nplain\n"]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_more_text_and_the_main_text_may_be_pipes_whose_copies_do_not_stay(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"text": "record"}\n')
    pipes = [tmp_path / name for name in ("main", "more")]
    for pipe in pipes:
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_text, args=(f"from {pipe.name}",), daemon=True).start()
    data = RunningTextConfig(path=str(pipes[0]), more=(str(pipes[1]), str(tmp_path / "b.jsonl")), valid=0)
    assert texts(prepare(data, CHAR)) == ["from more\nrecord\nfrom main\n"]
    gc.collect()
    assert not [path for path in cache.iterdir() if "stdin" in path.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_is_read_once_and_its_copy_does_not_stay(cache: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_text("from a pipe"), daemon=True).start()
    assert read_text(pipe) == "from a pipe"
    gc.collect()
    assert not [path for path in cache.iterdir() if "stdin" in path.name]


def test_a_file_for_evaluation_is_read_by_its_own_name_first(tmp_path: Path) -> None:
    tokenizer = prepare(DataConfig(text="hello", valid=0), CHAR).tokenizer
    run = DataConfig(path="train.data", format="jsonl", field="body")
    for name, content in (("a.txt", "hello"), ("b.jsonl", '{"body": "hello"}\n'), ("c.data", '{"body": "hello"}\n')):
        (tmp_path / name).write_text(content)
        assert tokenizer.decode(np.asarray(encode_file(tmp_path / name, tokenizer, run).ids)) == "hello"
        assert read_text(tmp_path / name, run) == "hello"


def test_a_text_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    for attempt in (lambda: prepare(DataConfig(text=""), CHAR), lambda: read_text(tmp_path / "a.txt")):
        with pytest.raises(DataError, match="is empty; expected some text"):
            attempt()


@pytest.mark.parametrize("age", [0, 10])  # seconds; what was counted in an older file is remembered
def test_records_without_text_are_skipped_with_a_warning_or_refused(age: int, tmp_path: Path) -> None:
    rows = "".join(f'{{"text": {text}}}\n' for text in ('"hello"', '""', "null", '" \\t"', '"hell"', '"\\n"'))
    path = tmp_path / "a.jsonl"
    path.write_text(rows)
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    problem = r"4 of 6 records of .*a\.jsonl have no text{}: .*a\.jsonl:2, .*a\.jsonl:3, .*a\.jsonl:4, …"
    for _ in range(2):
        with pytest.warns(UserWarning, match=problem.format(" and are skipped")):
            assert prepare(RunningTextConfig(path=str(path), valid=0), CHAR).documents == 2
    with pytest.raises(DataError, match=problem.format("")):
        prepare(RunningTextConfig(path=str(path), empty="refuse"), CHAR)
    with pytest.warns(UserWarning, match="4 of 6 records"):
        assert read_text(path) == "hellohell"


def test_a_text_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello")

    def meddle(what: str, done: int, total: int) -> None:
        if what == "reading":
            path.write_text("hell")

    with pytest.raises(DataError, match="changed while it was read: 5 characters became 4"):
        prepare(DataConfig(path=str(path), valid=0), CHAR, meddle)


def test_progress_reaches_its_end_in_every_phase(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\n" * 1000)
    last: dict[str, tuple[int, int]] = {}
    prepare(DataConfig(path=str(tmp_path / "a.txt")), BPE, lambda what, done, total: last.update({what: (done, total)}))
    assert set(last) == {"reading", "learning the vocabulary", "encoding"}
    assert all(done == total > 0 for done, total in last.values())


def test_tinyshakespeare_has_65_characters_and_the_split_everyone_uses(firth_data: Path) -> None:
    prepared = prepare(DataConfig(path=str(firth_data / "tinyshakespeare" / "input.txt")), CHAR)
    assert prepared.tokenizer.vocab == 65
    assert prepared.valid is not None
    assert (prepared.train.count, prepared.valid.count) == (1_003_854, 111_540)
    assert (prepared.train.characters, prepared.valid.characters) == (1_003_854, 111_540)


@pytest.mark.parametrize(
    ("folder", "name", "vocab", "counts"),
    [
        ("ptb", "ptb.{}.txt.xz", 10_000, (887_521 + 42_068, 70_390 + 3_370, 78_669 + 3_761)),  # the second: lines
        ("wikitext-2", "{}.txt.xz", 33_278, (2_088_628, 217_646, 245_569)),
    ],
)
@pytest.mark.long
def test_word_corpora_have_their_published_sizes(
    firth_data: Path, folder: str, name: str, vocab: int, counts: tuple[int, int, int]
) -> None:
    train, valid, test = (str(firth_data / folder / name.format(part)) for part in ("train", "valid", "test"))
    prepared = prepare(DataConfig(path=train, valid_path=valid, test_path=test), WORD)
    assert prepared.tokenizer.vocab == vocab
    assert prepared.valid is not None
    assert prepared.test is not None
    assert (prepared.train.count, prepared.valid.count, prepared.test.count) == counts
    assert {prepared.tokenizer.token(id) for id in range(3)} == {"the", "<unk>", "<eos>"} or folder != "ptb"


def test_importing_text_does_not_import_torch() -> None:
    program = "import sys, firth.text; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True)
