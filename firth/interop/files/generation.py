"""generation_config.json, and what older folders have of it in config.json: how a model generates text, as a recipe's [decoding].

An encoder–decoder also says there with which token its decoder begins, and which tokens it never writes.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.interop.files.foreign_json import read_json, shown
from firth.text.tokenizers.special_tokens import DecoderTokens

# Settings that [decoding] has, too, where a model samples by default.
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
_IDS = ("eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id")
_SEARCH = ("num_beams", "length_penalty", "early_stopping", "forced_bos_token_id", "bad_words_ids", "suppress_tokens")
# Settings that change what is generated and that firth does not apply, unless they change nothing (`_is_neutral`).
_OTHERS = (
    "begin_suppress_tokens", "constraints", "diversity_penalty", "dola_layers", "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty", "force_words_ids",
    "guidance_scale", "min_length", "min_new_tokens", "no_repeat_ngram_size", "num_beam_groups", "penalty_alpha",
    "sequence_bias", "stop_strings", "token_healing", "top_h", "watermarking_config",
)  # fmt: skip
_FACTORS = frozenset(
    {
        "encoder_repetition_penalty", "guidance_scale", "length_penalty", "num_beam_groups", "num_beams", "repetition_penalty",
        "top_h", "typical_p",
    }
)  # fmt: skip
# Settings of how and how long it is generated, and of what a call returns.
_NEUTRAL = frozenset(
    {
        "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight",
        "assistant_lookbehind", "cache_config", "cache_implementation", "compile_config", "continuous_batching_config",
        "disable_compile", "do_sample", "firth_version", "forced_eos_token_id", "is_assistant", "low_memory", "max_cache_len",
        "max_length", "max_matching_ngram_size", "max_new_tokens", "max_time", "num_assistant_tokens",
        "num_assistant_tokens_schedule", "num_return_sequences", "output_attentions", "output_hidden_states", "output_logits",
        "output_scores", "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits",
        "return_dict_in_generate", "return_legacy_cache", "speculation_type", "target_lookbehind", "transformers_version",
        "use_cache", "use_mtp",
    }
)  # fmt: skip
_OLD = frozenset({*_SAMPLING, *_IDS, *_SEARCH, *_OTHERS, "do_sample", "max_length", "max_new_tokens"})  # once in config.json


def generation_table(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both files; those of generation_config.json count."""
    old = {key: value for key, value in config.items() if key in _OLD}
    return {**old, **read_json(folder / "generation_config.json", {})}


def sampling(table: Mapping[str, Any]) -> dict[str, Any]:
    """[decoding] of a language model: its length, and how it samples if it does so by default."""
    searches = () if (table.get("num_beams") or 1) > 1 else ("length_penalty", "early_stopping")
    _warn(_unapplied(table, searches))
    return _sampling(table)


def _sampling(table: Mapping[str, Any]) -> dict[str, Any]:
    tokens = table.get("max_new_tokens")
    length = {"tokens": tokens} if tokens else {}
    if not table.get("do_sample"):
        return length
    found = {key: table[key] for key in _SAMPLING if table.get(key) is not None}
    return length | {key: value if key == "top_k" else float(value) for key, value in found.items()}


def _unapplied(table: Mapping[str, Any], applied: Collection[str]) -> dict[str, Any]:
    """The settings that change what is generated, and that are neither sampling's nor `applied`."""
    known = {*_SAMPLING, *_IDS, *_NEUTRAL, *applied}
    found = {key: value for key, value in table.items() if key not in known and not _is_neutral(key, value)}
    if not table.get("do_sample") and not _is_neutral("repetition_penalty", table.get("repetition_penalty")):
        found["repetition_penalty"] = table["repetition_penalty"]
    return found


def _is_neutral(key: str, value: Any) -> bool:
    return value in (None, 0, [], {}) or (key in _FACTORS and value == 1)


def _warn(ignored: Mapping[str, Any]) -> None:
    if ignored:
        told = ", ".join(f"{key} = {shown(value)}" for key, value in ignored.items())
        warnings.warn(f"firth does not apply these settings of the model's generation: {told}", stacklevel=3)


def searching(table: Mapping[str, Any]) -> dict[str, Any]:
    """[decoding] of an encoder–decoder: its beam search by the rules of `transformers`."""
    found, longest = _sampling(table), table.get("max_length")
    if "tokens" not in found and longest and longest > 1:
        found["tokens"] = longest - 1  # theirs counts the decoder's first input
    ignored = _unapplied(table, _SEARCH)
    early, penalty = table.get("early_stopping") or False, table.get("length_penalty")
    if early not in (True, False):
        ignored["early_stopping"] = early
    if penalty is not None and penalty < 0:
        ignored["length_penalty"] = penalty
    if several := [words for words in table.get("bad_words_ids") or () if len(words) > 1]:
        ignored["bad_words_ids"] = several
    _warn(ignored)
    return found | {
        "beam": table.get("num_beams") or 1,
        "penalty": 1.0 if penalty is None else max(0.0, float(penalty)),
        "beam_rules": "transformers",
        "early_stopping": early is True,
    }


def decoder_tokens(table: Mapping[str, Any]) -> DecoderTokens:
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    start = next((table[name] for name in names if table.get(name) is not None), None)
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
