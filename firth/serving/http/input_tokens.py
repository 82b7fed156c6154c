"""InputTokens: counts the tokens of a request's inputs before anything is computed with them."""

from __future__ import annotations

from collections.abc import Sequence

from firth.errors import FirthError
from firth.progress import Progress
from firth.serving.http.errors import ApiError
from firth.serving.http.limits import Limits
from firth.text import Tokenizer

_LONG_TOKEN, _SPARE = 16, 65_536  # a text longer than 16 characters per allowed token + 65,536 is refused without tokenising it


class InputTokens:
    """Each input is one or more texts of at most `most` tokens. A call, in the worker's thread, counts the tokens or raises."""

    def __init__(self, limits: Limits, tokenizer: Tokenizer, param: str, inputs: Sequence[str | tuple[str, ...]]) -> None:
        self._tokenizer, self._param, self._inputs = tokenizer, param, inputs
        self._most, self._all = limits.prompt or limits.input_tokens, limits.all_input_tokens
        self._known: dict[str, int] = {}  # texts that are part of several inputs
        self.total = 0

    def __call__(self, progress: Progress) -> None:
        for done, one in enumerate(self._inputs):
            progress("counting", done, len(self._inputs))
            self.total += sum(map(self._count, (one,) if isinstance(one, str) else one))
            if self.total > self._all:
                raise self._refused(f"more than {self._all:,} tokens in all. Send fewer texts at once.")

    def _count(self, text: str) -> int:
        if text not in self._known:
            if len(text) > _LONG_TOKEN * self._most + _SPARE:
                raise self._refused(f"a text of {len(text):,} characters; the limit is {self._most:,} tokens. Shorten it.")
            self._known[text] = self._tokens(text)
            if self._known[text] > self._most:
                raise self._refused(f"a text of {self._known[text]:,} tokens; the limit is {self._most:,}. Shorten it.")
        return self._known[text]

    def _tokens(self, text: str) -> int:
        try:
            return len(self._tokenizer.encode(text))
        except FirthError:  # a character outside the vocabulary, which some runs skip
            return len(text)

    def _refused(self, why: str) -> ApiError:
        return ApiError(413, f'"{self._param}" has {why}', param=self._param, code="context_length_exceeded")
