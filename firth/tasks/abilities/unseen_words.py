"""A warning about words or characters that are not in the vocabulary."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from itertools import islice

_SHOWN = 5


class UnseenWarning(UserWarning):
    """Some of a text is not in the vocabulary."""


def warn_unseen(unseen: Collection[str], treatment: str = "read as <unk>") -> None:
    """Warn once for all texts of a call, if any word or character is unknown."""
    if not unseen:
        return
    more = f" and {len(unseen) - _SHOWN:,} more" if len(unseen) > _SHOWN else ""
    warnings.warn(f"{treatment}, never seen in training: {', '.join(islice(unseen, _SHOWN))}{more}", UnseenWarning, stacklevel=4)
