"""firth tokenize: how tokenizers split a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from shell import Firth

TEXT = "low low low low low lower lower newest newest newest newest newest newest widest widest widest\n"  # Sennrich et al. 2016


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "low.txt"
    path.write_text(TEXT)
    return path


def test_five_tokenizers_split_the_same_text(firth: Firth, source: Path) -> None:
    split = json.loads(firth("tokenize", source, "lowest", "--vocab", 300, "--json").out)
    assert list(split) == ["char", "word", "bpe", "wordpiece", "unigram"]
    assert split["char"]["tokens"] == list("lowest")
    assert split["word"]["tokens"] == ["<unk>"]
    assert split["bpe"]["tokens"] == ["low", "est"]  # the example of Sennrich et al.
    for kind in ("bpe", "unigram"):
        assert "".join(split[kind]["tokens"]) == "lowest"


def test_byte_pairs_are_those_of_hugging_face(firth: Firth, source: Path) -> None:
    other = tokenizers.ByteLevelBPETokenizer()
    other.train([str(source)], vocab_size=266, min_frequency=1, show_progress=False)
    split = json.loads(firth("tokenize", source, "newest lowest", "--kind", "bpe", "--vocab", 267, "--json").out)  # and <eos>
    assert [token.replace("␣", "Ġ") for token in split["bpe"]["tokens"]] == other.encode("newest lowest").tokens


def test_the_tokenizer_of_a_run(firth: Firth, tmp_path: Path) -> None:
    assert firth("train", "hello", "--out", tmp_path / "run", "--training.steps=1").code == 0
    assert firth("tokenize", tmp_path / "run", "hell").out == "char     4 of 4  h│e│l│l\n"
    refused = firth("tokenize", tmp_path / "run", "hell", "--kind", "bpe")
    assert (refused.code, refused.out) == (2, "")
    assert "is a run. Remove it, or give a text file" in refused.err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["x", "--kind", "bpee"], 'there is no tokenizer "bpee"; choose from char, word, bpe, wordpiece, unigram'),
        (["x", "--vocab", "3"], "tokenizer.vocab is 3"),
    ],
)
def test_a_wrong_kind_or_size_is_refused(args: list[str], complaint: str, firth: Firth, source: Path) -> None:
    refused = firth("tokenize", source, *args)
    assert (refused.code, refused.out) == (2, "")
    assert complaint in refused.err
