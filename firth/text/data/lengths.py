"""Texts longer than the model's context: refused, or left out of training with a notice. They are never truncated silently."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError


def refuse_longer(length_N: NDArray[np.int64], limit: int | None, what: str) -> None:
    """Raise if any text has more than `limit` tokens (the model's position table); `what` names the texts in the message."""
    if limit is None or not (length_N > limit).any():
        return
    count, longest = int((length_N > limit).sum()), int(length_N.max())
    raise DataError(
        f"{count:,} of {len(length_N):,} {what} have more than {limit:,} tokens, the limit of this model's learned positions "
        f"(model.context = {limit}); the longest has {longest:,}. Shorten them, or train with a larger model.context or another "
        "model.position."
    )


def left_out(count: int, kept: int, what: str, limit: str, setting: str = "training.context") -> str | None:
    """A sentence on the texts that training leaves out because they have more than `limit`, such as "100 tokens"; None if all of
    them are kept. It is an error if none is."""
    if kept == count:
        return None
    if not kept:
        raise DataError(f"all {count:,} {what} have more than {limit}. Raise {setting}.")
    share = f"{100 * (count - kept) / count:.2g} %"
    advice = f"Set a larger {setting} to keep them."
    return f"{count - kept:,} of {count:,} {what} ({share}) have more than {limit} and are left out. {advice}"
