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


def refuse_all_longer(count: int, kept: int, what: str, limit: str, remedy: str) -> None:
    """Raise if none of `count` texts is kept for training; `limit` is such as "100 tokens"."""
    if not kept:
        raise DataError(f"all {count:,} {what} have more than {limit}. {remedy}")


def left_out_notice(dropped: int, kept: int, what: str, limit: str, remedy: str) -> str | None:
    """A sentence on the texts that training leaves out; None if there are none."""
    if not dropped:
        return None
    total = dropped + kept
    share = f"{100 * dropped / total:.2g} %"
    return f"{dropped:,} of {total:,} {what} ({share}) have more than {limit} and are left out. {remedy}"
