"""The tokens that may come next in a text that must match a grammar; llguidance computes them. Letters: V vocabulary."""

from __future__ import annotations

import functools
import re
import weakref

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from firth.decoding.sampling.filter import Note
from firth.decoding.sampling.rows import Spelled
from firth.errors import ConfigError
from firth.text.tokenizers.spelling import Spelling

_DEAD_END = "no token of the vocabulary continues this text so that it matches choice, regex or json_schema."
# Where only one text can follow, the library would leave only the tokens that it prefers.
_EVERY_TOKEN = '%llguidance {"no_forcing": true}\n'
_KEPT = 64  # grammars
_PLACE = r"^at \d+\(\d+\): "  # in the grammar, which nobody has seen
# The vocabulary of a word tokenizer is one large expression, so these are higher than the library's own, but still bounds.
_LIMITS = LLParserLimits(initial_lexer_fuel=20_000_000, step_lexer_fuel=5_000_000)

_tokenizers: weakref.WeakKeyDictionary[Spelling, LLTokenizer] = weakref.WeakKeyDictionary()


class Matching(Note):
    """The state of one text under a grammar."""

    def __init__(self, matcher: LLMatcher, spelled: Spelled) -> None:
        self._matcher, self._spelled = matcher, spelled
        self._look()

    @classmethod
    def of(cls, grammar: str, spelled: Spelled) -> Matching:
        matching = cls(_matcher(grammar, spelled.spelling).deep_copy(), spelled)
        if matching.failure is not None:
            raise ConfigError(matching.failure)
        return matching

    def add(self, token: int, probability: float) -> None:
        if token in self._spelled.ends:
            return
        self._matcher.consume_token(token)
        self._look()

    def excluded(self, vocab: int) -> NDArray[np.bool_]:
        """excluded_V; the model may have more tokens than the tokenizer. None after the end of the match."""
        if self.ended or self.failure is not None:
            return np.zeros(vocab, np.bool_)
        found_V = np.ones(vocab, np.bool_)
        found_V[: len(self._allowed_V)] = ~self._allowed_V[:vocab]
        return found_V

    def _look(self) -> None:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        tokens = len(self._spelled.spelling.tokens)
        allowed = np.unpackbits(bits, bitorder="little")[: tokens + 1].astype(np.bool_)
        self._allowed_V, self.matches = allowed[:tokens], bool(allowed[tokens])
        if self._matcher.is_error() and "NoExtension" not in self._matcher.get_error():
            self.failure = _told(self._matcher.get_error())
        elif not self._allowed_V.any():
            self.ended = self.matches and self._matcher.is_accepting()
            self.failure = None if self.ended else _DEAD_END
        elif self.matches:
            self._allowed_V[list(self._spelled.ends)] = True


@functools.lru_cache(maxsize=_KEPT)
def _matcher(grammar: str, spelling: Spelling) -> LLMatcher:
    matcher = LLMatcher(
        _tokenizer(spelling), LLMatcher.grammar_from_lark(f"{_EVERY_TOKEN}{grammar}"), log_level=0, limits=_LIMITS
    )
    if matcher.is_error():
        raise ConfigError(_told(matcher.get_error()))
    return matcher


def _told(error: str) -> str:
    """The library's reason, without the grammar that it quotes."""
    reasons = [line.removeprefix("error: ") for line in error.splitlines() if line.startswith("error: ")]
    reason = (reasons or [error.splitlines()[0]])[-1]
    return f"the constraint cannot be used: {re.sub(_PLACE, '', reason)[:200]}"


def _tokenizer(spelling: Spelling) -> LLTokenizer:
    if spelling not in _tokenizers:
        _tokenizers[spelling] = LLTokenizer(TokenizerWrapper(_Vocabulary(spelling)), slices=[])
    return _tokenizers[spelling]


class _Vocabulary:
    """The tokens as llguidance expects them, plus one that ends a text."""

    bos_token_id = None

    def __init__(self, spelling: Spelling) -> None:
        self.eos_token_id = len(spelling.tokens)
        self.tokens = [*spelling.tokens, b"<end>"]
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: str | bytes) -> list[int]:
        """Tokenise a text; only forcing needs it."""
        return []
