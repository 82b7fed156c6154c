"""generation_config.json, and what older folders have of it in config.json: how a model generates text (decoding/foreign.py reads
that), and with which token a decoder begins, and which it never writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.interop.files.foreign_json import read_json
from firth.text.tokenizers.special_tokens import DecoderTokens
from firth.text.tokenizers.tokenizer import Tokenizer

# What older folders have in config.json.
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
IDS = ("eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id")
SEARCH = ("num_beams", "length_penalty", "early_stopping", "forced_bos_token_id", "bad_words_ids", "suppress_tokens")
_OTHERS = (
    "begin_suppress_tokens", "constraints", "diversity_penalty", "dola_layers", "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty", "force_words_ids",
    "guidance_scale", "min_length", "min_new_tokens", "no_repeat_ngram_size", "num_beam_groups", "penalty_alpha",
    "sequence_bias", "stop_strings", "token_healing", "top_h", "watermarking_config",
)  # fmt: skip
_OLD = frozenset({*_SAMPLING, *IDS, *SEARCH, *_OTHERS, "do_sample", "max_length", "max_new_tokens"})


def generation_table(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both files; those of generation_config.json count."""
    old = {key: value for key, value in config.items() if key in _OLD}
    return {**old, **read_json(folder / "generation_config.json", {})}


def decoder_tokens(table: Mapping[str, Any]) -> DecoderTokens:
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    start = next((table[name] for name in names if table.get(name) is not None), None)
    if start is None:
        raise DataError("config.json has no decoder_start_token_id, the first token of the decoder. Add it.")
    single = [words[0] for words in table.get("bad_words_ids") or () if len(words) == 1]
    return DecoderTokens(start, table.get("forced_bos_token_id"), (*single, *(table.get("suppress_tokens") or ())))


def written_tokens(tokenizer: Tokenizer) -> dict[str, Any]:
    """The first tokens of the decoder, as in generation_config.json; without a target language, those that are known."""
    languages = tokenizer.languages
    if languages is not None and languages.target is None:
        tokens = tokenizer.decoder_without_language
        start = {} if languages.starts else {"decoder_start_token_id": tokens.start}
        return start | _banned(tokens)
    tokens = tokenizer.decoder
    table: dict[str, Any] = {"decoder_start_token_id": tokens.start}
    if tokens.first is not None:
        table["forced_bos_token_id"] = tokens.first
    return table | _banned(tokens)


def _banned(tokens: DecoderTokens) -> dict[str, Any]:
    return {"bad_words_ids": [[token] for token in tokens.banned]} if tokens.banned else {}
