"""generation_config.json, and what older folders have of it in config.json: how a model generates text, as a recipe's [decoding].

An encoder–decoder also says there with which token its decoder begins, and which tokens it never writes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.interop.tokenizer_files import read_json
from firth.text.tokenizers.special_tokens import DecoderTokens

# Settings that [decoding] has, too, where a model samples by default.
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
# Settings that change what a search finds, with the values that change nothing.
_UNKNOWN: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "num_beam_groups": (None, 1),
    "exponential_decay_length_penalty": (None,),
    "begin_suppress_tokens": (None, []),
}


def generation_table(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both files; those of generation_config.json count."""
    return {**config, **read_json(folder / "generation_config.json", {})}


def sampling(table: Mapping[str, Any]) -> dict[str, Any]:
    """[decoding] of a language model: its length, and how it samples if it does so by default."""
    tokens = table.get("max_new_tokens")
    length = {"tokens": tokens} if isinstance(tokens, int) and tokens > 0 else {}
    if not table.get("do_sample"):
        return length
    found = {key: table[key] for key in _SAMPLING if table.get(key) is not None}
    return length | {key: int(value) if key == "top_k" else float(value) for key, value in found.items()}


def searching(table: Mapping[str, Any]) -> dict[str, Any]:
    """[decoding] of an encoder–decoder: its beam search by the rules of `transformers`."""
    found, longest = sampling(table), table.get("max_length")
    if "tokens" not in found and isinstance(longest, int) and longest > 1:
        found["tokens"] = longest - 1  # theirs counts the decoder's first input
    ignored = {key: table[key] for key, same in _UNKNOWN.items() if table.get(key) not in same}
    early, penalty = table.get("early_stopping") or False, table.get("length_penalty")
    if early not in (True, False):
        ignored["early_stopping"] = early
    if penalty is not None and penalty < 0:
        ignored["length_penalty"] = penalty
    if ignored:
        told = ", ".join(f"{key} = {value}" for key, value in ignored.items())
        warnings.warn(f"firth does not apply these settings of the model's generation: {told}", stacklevel=2)
    return found | {
        "beam": table.get("num_beams") or 1,
        "penalty": 1.0 if penalty is None else max(0.0, float(penalty)),
        "beam_rules": "transformers",
        "early_stopping": early is True,
    }


def decoder_tokens(table: Mapping[str, Any]) -> DecoderTokens:
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    start = next((table[name] for name in names if isinstance(table.get(name), int)), None)
    if start is None:
        raise DataError("config.json has no decoder_start_token_id, the token with which the decoder begins. Add it.")
    single = [words[0] for words in table.get("bad_words_ids") or () if len(words) == 1]
    return DecoderTokens(start, table.get("forced_bos_token_id"), (*single, *(table.get("suppress_tokens") or ())))


def written_tokens(tokens: DecoderTokens) -> dict[str, Any]:
    """As generation_config.json has them."""
    found: dict[str, Any] = {"decoder_start_token_id": tokens.start}
    if tokens.first is not None:
        found["forced_bos_token_id"] = tokens.first
    return found | ({"bad_words_ids": [[token] for token in tokens.banned]} if tokens.banned else {})
