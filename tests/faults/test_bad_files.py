"""Damaged files of every kind: whoever reads them ends well or says in one line what is wrong, soon and with little memory.

FIRTH_FAULT_INPUTS sets how many inputs each reader gets in the long test: 200 unless told otherwise, more in `make faults`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from bad_files import assert_none_failed, tried

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and limits of POSIX")
INPUTS = int(os.environ.get("FIRTH_FAULT_INPUTS", "200"))
FIRST = int(os.environ.get("FIRTH_FAULT_FIRST", "0"))
QUICK = (
    "text.jsonl",
    "labelled.csv",
    "chats.jsonl",
    "vectors v.bin",
    "vectors v.vec",
    "tokenizer word",
    "recipe",
    "chat template in JSON",
)
# Inputs that once ended in a traceback, took gigabytes or did not end.
KNOWN = {
    "text.jsonl": (27,),
    "tokenizer char": (3, 5, 9),
    "tokenizer unigram": (39,),
    "run resumed resealed": (1, 2, 3, 16, 190),
    "run log": (1, 14, 16),
    "run model.safetensors": (146,),
    "adapter": (76, 79, 177),
    "vocab.json and merges.txt": (158,),
    "search index": (126,),
    "captions": (62, 114),
    "token cache": (52,),
    "vectors v.firth": (133, 139),
}


def test_a_few_damaged_files_end_well() -> None:
    readers = tried(1, 0, *QUICK)
    assert [one["reader"] for one in readers] == list(QUICK)
    assert_none_failed(readers)


@pytest.mark.long
def test_damaged_files_of_every_kind_end_well(tally: Callable[[str, Mapping[str, int]], None]) -> None:
    readers = tried(INPUTS, FIRST)
    outcomes = Counter[str]()
    for one in readers:
        outcomes.update(one["outcomes"])
    tally(f"damaged files of {len(readers)} readers", outcomes)
    assert_none_failed(readers)


@pytest.mark.long
@pytest.mark.parametrize("reader", KNOWN)
def test_inputs_that_failed_once_end_well(reader: str) -> None:
    for number in KNOWN[reader]:
        assert_none_failed(tried(1, number, reader))
