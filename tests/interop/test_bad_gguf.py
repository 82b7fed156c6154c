"""GGUF files that cannot be read: a one-line error, and nothing half-written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_folders import byte_level, llama
from gguf_files import written

import firth
from firth.api import import_model
from firth.errors import FirthError

Q = "blk.0.attn_q.weight"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(tmp_path_factory.mktemp("good") / "model.gguf", llama(), byte_level()).read_bytes()


def placed(content: bytes, place: int, format: str, value: int) -> bytes:
    return content[:place] + struct.pack(format, value) + content[place + struct.calcsize(format) :]


def after(content: bytes, what: bytes) -> int:
    return content.index(what) + len(what)


def header(tensors: int, entries: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + rest


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "is empty. Download it again"),
    "short": (lambda _: b"GGUF\x03", "truncated or damaged: it declares 4 bytes at byte 4, but has 5 in all"),
    "other magic": (lambda good: b"GGML" + good[4:], "is not a GGUF file: it does not begin with GGUF"),
    "old version": (lambda good: placed(good, 4, "<I", 1), "has version 1 of GGUF; .* Convert the model again"),
    "new version": (lambda good: placed(good, 4, "<I", 4), "has version 4 of GGUF; .* It needs a newer firth"),
    "big-endian": (lambda good: placed(good, 4, ">I", 3), r"firth reads 2 and 3 \(little-endian\)"),
    "truncated values": (lambda good: good[:-100], r"truncated or damaged: \S+ ends at byte [\d,]+, but only [\d,]+ are there"),
    "truncated metadata": (lambda good: good[:3000], "truncated or damaged: it declares"),
    "many tensors": (lambda good: placed(good, 8, "<Q", 1 << 60), r"it declares 27,670,116,110,564,[\d,]+ bytes"),
    "many entries": (lambda good: placed(good, 16, "<Q", 1 << 60), "it declares 14,987,979,559,889,"),
    "long key": (lambda good: placed(good, 24, "<Q", 1 << 62), "it declares 4,611,686,018,427,387,904 bytes at byte 32"),
    "long string list": (
        lambda _: header(0, 1, entry(b"a", 9, struct.pack("<IQ", 8, 1 << 59)), 3),
        "it declares 4,611,686,018,427,387,904 bytes",
    ),
    "long number list": (
        lambda _: header(0, 1, entry(b"a", 9, struct.pack("<IQ", 0, 1 << 60)), 3),
        "it declares 1,152,921,504,606,846,976 bytes",
    ),
    "list of lists": (
        lambda _: header(0, 1, entry(b"a", 9, struct.pack("<IQ", 9, 1)), 3),
        "its metadata has a value of the type 9",
    ),
    "unknown value": (lambda _: header(0, 1, entry(b"a", 77, b""), 3), "its metadata has a value of the type 77"),
    "many dimensions": (
        lambda good: placed(good, after(good, Q.encode()), "<I", 99),
        f"{Q} has 99 dimensions",
    ),
    "huge tensor": (
        lambda good: placed(good, after(good, Q.encode()) + 4, "<Q", 1 << 61),
        rf"{Q} ends at byte 295,147,905,179,3[\d,]+, but only",
    ),
    "empty tensor": (lambda good: placed(good, after(good, Q.encode()) + 4, "<Q", 0), rf"{Q} has the shape \(32, 0\)"),
    "unknown type": (
        lambda good: placed(good, after(good, Q.encode()) + 20, "<I", 999),
        f"{Q} is of the type 999, which the package gguf does not know",
    ),
    "no alignment": (
        lambda good: placed(good, after(good, Q.encode()) + 24, "<Q", 3),
        f"{Q} of shape .* does not fit its type F32",
    ),
}


def refused(path: Path, message: str) -> None:
    for attempt in (lambda: firth.load(path, "cpu"), lambda: import_model(path, path.parent / "runs" / "run")):
        with pytest.raises(FirthError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert list((path.parent / "runs").glob("*")) == []


@pytest.mark.parametrize("name", list(BYTES))
def test_a_damaged_file_is_refused_in_one_line_and_nothing_is_written(name: str, good: bytes, tmp_path: Path) -> None:
    change, message = BYTES[name]
    (tmp_path / "model.gguf").write_bytes(change(good))
    refused(tmp_path / "model.gguf", message)


METADATA: dict[str, tuple[dict[str, Any], str]] = {
    "other architecture": ({"architecture": "qwen2"}, r"has the architecture 'qwen2', .* Known: llama \(LLaMA"),
    "part of a model": ({"split__count": 3}, "is one of 3 parts. Join them"),
    "no width": ({"llama__embedding_length": None}, "the metadata: embedding_length is None; expected a whole number"),
    "unknown setting": ({"llama__expert_count": 8}, r"the metadata has settings that firth does not know: expert_count = 8"),
    "odd heads": ({"llama__attention__head_count_kv": 3}, "does not describe a LLaMA model that firth can build"),
    "scaling": ({"llama__rope__scaling__type": "longrope"}, "rope.scaling.type is 'longrope'; firth only computes"),
    "depth": ({"llama__block_count": 4}, r"the weights do not fit the metadata\. missing: blk\.3\.attn_q\.weight"),
    "tokenizer": ({"tokenizer__ggml__model": "bert"}, r"tokenizer\.ggml\.model is 'bert'; firth reads the tokenizers"),
    "pattern": ({"tokenizer__ggml__pre": "mine"}, r"tokenizer\.ggml\.pre is 'mine', which firth does not know. Known: gpt-2"),
    "no tokens": ({"tokenizer__ggml__tokens": None}, r"the metadata has no tokenizer\.ggml\.tokens"),
    "types": ({"tokenizer__ggml__token_type": [1, 1]}, "400 tokens, but 2 token types"),
    "merge": ({"tokenizer__ggml__merges": ["a"]}, "merges has the entry 'a'; expected two tokens"),
    "merge of no tokens": ({"tokenizer__ggml__merges": ["aaaa bbbb"]}, "the tokenizer in the metadata cannot be built"),
    "alignment": ({"general__alignment": 3}, "general.alignment is 3"),
}


@pytest.mark.parametrize("name", list(METADATA))
def test_metadata_that_do_not_describe_a_known_model_are_refused(name: str, tmp_path: Path) -> None:
    changes, message = METADATA[name]
    refused(written(tmp_path / "model.gguf", llama(), byte_level(), **changes), message)


def test_unknown_frequencies_and_tensors_are_refused(tmp_path: Path) -> None:
    for name, values, message in (
        ("rope_freqs.weight", np.full(4, 3.0, np.float32) * np.arange(4, dtype=np.float32), "not those of LLaMA 3.1"),
        ("blk.0.attn_q.bias", np.ones(32, np.float32), r"unexpected: blk\.0\.attn_q\.bias"),
    ):
        path = written(tmp_path / f"{name}.gguf", llama(), byte_level(), tensors={name: values})
        refused(path, message)


def test_without_the_package_the_error_says_how_to_install_it(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.gguf").write_bytes(good)
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    refused(tmp_path / "model.gguf", r'GGUF files need the package gguf\. Install it with pip install "firth\[gguf\]"')


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"cannot read .*absent\.gguf: No such file"):
        firth.load(tmp_path / "absent.gguf", "cpu")
