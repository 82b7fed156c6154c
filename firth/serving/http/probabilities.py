"""Log-probabilities as OpenAI's responses list them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from firth.decoding.engine.engine import GeneratedToken
from firth.serving.http.writing import Speller, Token
from firth.text.tokenizers.tokenizer import Tokenizer

_LEAST = -9999.0  # what OpenAI writes for log 0, which JSON has no number for


def for_completions(tokenizer: Tokenizer, tokens: Sequence[Token], shift: int = 0) -> dict[str, list[Any]]:
    """Four lists with an entry per token. `shift`: characters of the response before the text that the offsets count from."""
    logprobs: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for written, offset in tokens:
        logprobs["tokens"].append(tokenizer.token(written.id))
        logprobs["text_offset"].append(offset + shift)
        if written.log_probability is None:
            logprobs["token_logprobs"].append(None)
            logprobs["top_logprobs"].append(None)
            continue
        logprobs["token_logprobs"].append(_finite(written.log_probability))
        best: dict[str, float] = {}
        for id, value in (*written.top, (written.id, written.log_probability)):
            best.setdefault(tokenizer.token(id), _finite(value))  # of two tokens that look the same, the more probable one
        logprobs["top_logprobs"].append(best)
    return logprobs


def for_chat(tokenizer: Tokenizer, tokens: Iterable[Token]) -> dict[str, Any]:
    entries = []
    for written, _ in tokens:
        best = [_entry(tokenizer, id, value) for id, value in written.top]
        entries.append({**_entry(tokenizer, written.id, written.log_probability or 0.0), "top_logprobs": best})
    return {"content": entries, "refusal": None}


def prompt_tokens(tokenizer: Tokenizer, scored: Sequence[GeneratedToken]) -> list[Token]:
    """The tokens of a prompt, each with the place where its text begins."""
    speller, tokens, length = Speller(tokenizer), [], 0
    for written in scored:
        tokens.append(Token(written, length))
        length += len(speller.push(written.id))
    return tokens


def _entry(tokenizer: Tokenizer, id: int, log_probability: float) -> dict[str, Any]:
    text = tokenizer.token(id)
    return {"token": text, "logprob": _finite(log_probability), "bytes": list(text.encode())}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else _LEAST
