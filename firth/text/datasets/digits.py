"""Handwritten digits as words: 1,797 images of 8 × 8 pixels that scikit-learn contains (Alpaydin & Kaynak 1998)."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError
from firth.text.batches.permutation import keys, permuted
from firth.text.fingerprint import sha256_of_arrays, sha256_of_texts

SIZE = 8  # pixels
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DARKEST = 16  # of scikit-learn's grey values
_SPLIT = 0  # the purpose of the key


@dataclass(frozen=True)
class Digits:
    image_NHWC: NDArray[np.uint8]
    captions: tuple[str, ...]
    kinds: None = None

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def sha256(self) -> str:
        return sha256_of_texts([[sha256_of_arrays([self.image_NHWC]), *self.captions]])


def digits(size: int = SIZE) -> dict[str, Digits]:
    """The parts "train", "valid" and "test": eight, one and one tenth, after a fixed shuffle."""
    if size % SIZE:
        raise ConfigError(f"data.size is {size}, but digits are enlarged from 8 pixels. Choose a multiple of 8.")
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise DataError('digits needs scikit-learn. Install it with pip install "firth[images]".') from None
    bunch = datasets.load_digits()
    grey_NHW = np.rint(bunch.images * (255 / _DARKEST)).astype(np.uint8).repeat(size // SIZE, 1).repeat(size // SIZE, 2)
    count = len(grey_NHW)
    order_N = permuted(np.arange(count, dtype=np.uint64), count, keys(0, np.zeros(1, np.uint64), _SPLIT)).astype(np.int64)
    tenth = count // 10
    ends = {"test": slice(tenth), "valid": slice(tenth, 2 * tenth), "train": slice(2 * tenth, None)}
    return {part: _chosen(grey_NHW, bunch.target, order_N[rows]) for part, rows in ends.items()}


def _chosen(grey_NHW: NDArray[np.uint8], digit_N: NDArray[np.int64], row_B: NDArray[np.int64]) -> Digits:
    return Digits(np.repeat(grey_NHW[row_B, :, :, None], 3, axis=3), tuple(WORDS[digit] for digit in digit_N[row_B]))
