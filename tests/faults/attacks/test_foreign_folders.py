"""Public models of strangers, attacked: whatever their files say, firth ends well, or with exit code 2 and one line.

FIRTH_ATTACK_INPUTS sets how many inputs each kind of folder gets: 300 in the long test unless told otherwise."""

from __future__ import annotations

import os
import sys

import pytest
from bad_files import assert_none_failed, tried

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and limits of POSIX")
INPUTS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "300"))
FIRST = int(os.environ.get("FIRTH_ATTACK_FIRST", "0"))
FOLDERS = (
    "attack on a language model",
    "attack on a model with vocab.json",
    "attack on a classifier",
    "attack on DeBERTa",
    "attack on ModernBERT",
    "attack on a translator",
    "attack on a sentence encoder",
    "hugging face weights",
    "adapter",
)


@pytest.mark.long
def test_public_models_with_hostile_files_end_in_one_line() -> None:
    folders = tried(INPUTS, FIRST, *FOLDERS)
    assert len(folders) == len(FOLDERS)
    print(f"{sum(sum(one['outcomes'].values()) for one in folders):,} inputs of {len(folders)} kinds of folders")
    assert_none_failed(folders)
