"""Token ids → text as they come, exactly as `run.generate` spells them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from firth.text import Tokenizer

_BEFORE = 8  # tokens before a text that can decide how it is spelled: a character has up to four bytes


class Speller:
    """`push(id)` is the text that this token adds; "" while it ends inside a character."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._waiting: deque[int] = deque()
        self._spelled = tokenizer.spell(iter(self._waiting.popleft, None))
        for id in before[-_BEFORE:]:
            self.push(id)

    def push(self, id: int) -> str:
        self._waiting.append(id)
        return next(self._spelled)
