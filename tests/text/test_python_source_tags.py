"""Python source as tagged lines: against `tokenize` itself, and a line in which one word is five things."""

from __future__ import annotations

import dataclasses
import tokenize
from io import BytesIO
from pathlib import Path

import pytest

from firth.text.config import TaggedConfig, TokenizerConfig
from firth.text.data.tagged import encode_tagged, prepare_tagged
from firth.text.datasets.python_source_tags import NAMES, WORDS, source_lines, tagged_lines


def tags(source: str) -> list[list[tuple[str, str]]]:
    return list(tagged_lines(source.encode()))


def test_one_word_is_what_stands_around_it() -> None:
    first, second = tags("def copy(self):\n    self.copy = copy(copy=copy)\n")
    assert [tag for word, tag in first + second if word == "copy"] == ["function", "attribute", "call", "argument", "name"]
    assert first[0] == ("def", "keyword")
    assert [word for word, _ in second] == ["self", ".", "copy", "=", "copy", "(", "copy", "=", "copy", ")"]


def test_tokens_are_told_apart_as_tokenize_does() -> None:
    ((line),) = tags("class A(B): x: int = 3.5  # a comment\n")
    assert line == [
        ("class", "keyword"),
        ("A", "class"),
        ("(", "operator"),
        ("B", "name"),
        (")", "operator"),
        (":", "operator"),
        ("x", "name"),
        (":", "operator"),
        ("int", "name"),
        ("=", "operator"),
        ("3.5", "number"),
    ]
    assert tags("def f(a: int = 3, b=4): pass\n")[0][3:10] == [
        ("a", "name"),
        (":", "operator"),
        ("int", "name"),
        ("=", "operator"),
        ("3", "number"),
        (",", "operator"),
        ("b", "argument"),
    ]


def test_a_line_may_go_over_several_and_a_string_has_no_white_space() -> None:
    (line,) = tags('f(\n  "a b\\t c",  # x\n  """d\n  e""")\n')
    assert line == [
        ("f", "call"),
        ("(", "operator"),
        ('"ab\\tc"', "string"),
        (",", "operator"),
        ('"""de"""', "string"),
        (")", "operator"),
    ]


def test_what_is_not_python_gives_what_came_before_it() -> None:
    assert tags("x = 1\ny = (\n") == [[("x", "name"), ("=", "operator"), ("1", "number")]]
    assert list(tagged_lines(b"\xff\xfe")) == []


@pytest.mark.long
def test_the_same_lines_every_time_and_each_part_from_other_files() -> None:
    first, second = source_lines(500, 300)
    assert [first, second] == source_lines(500, 300)
    assert sum(map(len, first)) >= 500
    assert sum(map(len, second)) >= 300
    assert source_lines(500) == [first]
    whole = source_lines(500 + 20_000)[0]
    assert whole[: len(first) + len(second)] == first + second, "no line twice, none left out"
    assert {tag for line in whole for _, tag in line} == {*NAMES, "operator", "number", "string"}


def test_a_recipe_can_name_the_lines(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, words in {"train": 15_000, "valid": 2_000, "test": 4_000}.items():
        monkeypatch.setitem(WORDS, part, words)
    data = TaggedConfig(name="python-source")
    tagged = prepare_tagged(data, TokenizerConfig(kind="word", min_count=2))
    assert set(tagged.labels) == {*NAMES, "operator", "number", "string"}
    assert tagged.valid is not None
    assert tagged.test is not None
    assert len(tagged.train) > len(tagged.test) > len(tagged.valid) > 100
    files = {path.name: path.stat().st_mtime_ns for path in cache.glob("python-source-*")}
    assert len(files) == 3
    assert prepare_tagged(data, tagged.tokenizer).sha256 == tagged.sha256
    assert {path.name: path.stat().st_mtime_ns for path in cache.glob("python-source-*")} == files, "read from the cache"
    other = cache / "mine.conll"
    other.write_text("x\tname\n=\toperator\n1\tnumber\n", encoding="utf-8")
    run_data = dataclasses.replace(data, labels=tagged.labels)  # as training fills it in
    assert len(encode_tagged(other, tagged.tokenizer, run_data)) == 1


def test_every_token_of_a_file_is_there() -> None:
    source = b"import os\nfor x in range(3):\n    print(x, [1, 2])\n"
    expected = [
        token.string
        for token in tokenize.tokenize(BytesIO(source).readline)
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    ]
    assert [word for line in tagged_lines(source) for word, _ in line] == expected
