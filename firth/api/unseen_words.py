"""A note on what a text has and a vocabulary has not."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from itertools import islice

_SEVERAL = 5  # characters or words that are named


def say_unseen(unseen: Collection[str], what_became_of_them: str = "read as <unk>") -> None:
    """Once for all texts of a call; nothing where there are none."""
    if not unseen:
        return
    more = f" and {len(unseen) - _SEVERAL:,} more" if len(unseen) > _SEVERAL else ""
    warnings.warn(f"{what_became_of_them}, never seen in training: {', '.join(islice(unseen, _SEVERAL))}{more}", stacklevel=4)
