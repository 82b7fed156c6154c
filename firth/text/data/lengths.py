"""Texts that are longer than a model's learned positions: an error, never a silent truncation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError


def refuse_longer(length_N: NDArray[np.int64], limit: int | None, what: str) -> None:
    """Raise where one of the texts has more than `limit` tokens; None: any length is fine."""
    if limit is None or not (length_N > limit).any():
        return
    raise DataError(
        f"{int((length_N > limit).sum()):,} of {len(length_N):,} {what} are longer than model.context = {limit:,}, where the "
        f"learned positions end; the longest has {int(length_N.max()):,}. Shorten them, raise model.context, or choose another "
        "model.position."
    )
