"""Texts longer than the model's context: refused with their number, or left out with a notice."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.text.data.lengths import left_out, refuse_longer


def test_texts_within_the_limit_pass_and_longer_ones_are_counted() -> None:
    length_N = np.array([3, 8, 5, 9])
    refuse_longer(length_N, None, "texts")
    refuse_longer(length_N, 9, "texts")
    with pytest.raises(
        DataError, match=r"^2 of 4 held-out texts have more than 5 tokens, .*\(model\.context = 5\); the longest has 9\."
    ):
        refuse_longer(length_N, 5, "held-out texts")


def test_a_limit_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(DataError, match=r"^all 4 training texts have more than 2 tokens\. Raise training\.context\.$"):
        left_out(4, 0, "training texts", "2 tokens")


def test_the_notice_gives_the_share_left_out() -> None:
    assert left_out(4, 4, "training pairs", "2 tokens") is None
    told = left_out(4, 3, "pairs", "2 tokens", "model.context")
    assert told == "1 of 4 pairs (25 %) have more than 2 tokens and are left out. Set a larger model.context to keep them."
