"""What holds for windows of a text however they are corrupted."""

from __future__ import annotations

from typing import Any

import numpy as np

from firth.text.batches.span_corruption import CorruptedWindows


def assert_a_batch_is_a_function_of_its_position(corruption: Any, id_N: np.ndarray, batch: int, position: int) -> None:
    one, other = (CorruptedWindows(id_N, batch, corruption) for _ in range(2))
    one.seek(position)
    one.next()
    other.seek(position + 1)
    assert one.position == other.position == position + 1
    left, right = one.next(), other.next()
    assert all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ("source_BS", "input_BT", "target_BT"))
