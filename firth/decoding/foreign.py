"""[decoding] as other formats have it: generation_config.json and GGUF. Each filter says what its settings are called there
(sampling/filter.py)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from firth.decoding.config import FILTERS, DecodingConfig, setting_names
from firth.errors import DataError
from firth.interop.files.foreign_json import shown
from firth.interop.files.generation import IDS, SEARCH

_GGUF = "general.sampling."
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


def _hugging_face() -> dict[str, str]:
    return {ours: theirs for one in FILTERS for ours, theirs in one.hugging_face.items()}


def _in_gguf() -> dict[str, str]:
    return {ours: f"{_GGUF}{theirs}" for one in FILTERS for ours, theirs in one.gguf.items()}


def from_generation_config(table: Mapping[str, Any], *, pairs: bool) -> dict[str, Any]:
    """The [decoding] settings in generation_config.json: length, and sampling if it is the default there; for an encoder–decoder
    (`pairs`) also beam search. A warning names the settings that firth does not apply."""
    return _searching(table) if pairs else _sampling(table)


def from_gguf(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The [decoding] settings in the metadata of a GGUF file. A warning names those that firth does not apply."""
    given = {key: value for key, value in metadata.items() if key.startswith(_GGUF) and value is not None}
    _warn({key: value for key, value in given.items() if key not in _in_gguf().values()})
    return {ours: _number(ours, given[theirs]) for ours, theirs in _in_gguf().items() if theirs in given}


def to_generation_config(decoding: DecodingConfig, *, pairs: bool) -> dict[str, Any]:
    """The settings as generation_config.json has them. firth's own length penalty has another form there; its exponent is kept.
    Encoder–decoders (`pairs`) sample only on request. A warning names the settings that cannot be exported."""
    penalty = {"repetition_penalty": decoding.repetition_penalty}
    length = {"max_new_tokens": decoding.tokens}
    if decoding.temperature == 0 or decoding.beam > 1 or pairs:
        rules = {"length_penalty": decoding.penalty, "early_stopping": decoding.early_stopping} if pairs else {}
        return {**length, **penalty, "do_sample": False, "num_beams": decoding.beam, **rules}
    always = {name: getattr(decoding, name) for name in ("temperature", "top_k", "top_p")}
    return {**length, **penalty, "do_sample": True, **always, **_filters(decoding)}


def _filters(decoding: DecodingConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for one in decoding.acting:
        for name in setting_names(one):
            if name in one.hugging_face:
                settings[one.hugging_face[name]] = getattr(decoding, name)
            elif getattr(decoding, name):
                warnings.warn(f"decoding.{name} is not exported: generation_config.json has no such setting", stacklevel=4)
    return settings


def _sampling(table: Mapping[str, Any]) -> dict[str, Any]:
    searches = () if (table.get("num_beams") or 1) > 1 else ("length_penalty", "early_stopping")
    _warn(_unapplied(table, searches))
    return _drawn(table)


def _drawn(table: Mapping[str, Any]) -> dict[str, Any]:
    tokens = table.get("max_new_tokens")
    length = {"tokens": tokens} if tokens else {}
    if not table.get("do_sample"):
        return length
    given = {ours: table.get(theirs) for ours, theirs in _hugging_face().items()}
    return length | {name: _number(name, value) for name, value in given.items() if value is not None}


def _number(name: str, value: Any) -> float | int:
    """As our setting has it."""
    whole = isinstance(DecodingConfig.__dataclass_fields__[name].default, int)
    if isinstance(value, bool) or not isinstance(value, int | float) or (whole and not float(value).is_integer()):
        expected = "a whole number" if whole else "a number"
        raise DataError(f"{name} in the model's generation settings is {shown(value)}; expected {expected}. Correct it.")
    return int(value) if whole else float(value)


def _unapplied(table: Mapping[str, Any], applied: Collection[str]) -> dict[str, Any]:
    """Settings that affect the generated text and are neither sampling settings nor `applied`."""
    known = {*_hugging_face().values(), *IDS, *_NEUTRAL, *applied}
    ignored = {key: value for key, value in table.items() if key not in known and not _is_neutral(key, value)}
    if not table.get("do_sample") and not _is_neutral("repetition_penalty", table.get("repetition_penalty")):
        ignored["repetition_penalty"] = table["repetition_penalty"]
    return ignored


def _is_neutral(key: str, value: Any) -> bool:
    return value in (None, 0, [], {}) or (key in _FACTORS and value == 1)


def _warn(ignored: Mapping[str, Any]) -> None:
    if ignored:
        told = ", ".join(f"{key} = {shown(value)}" for key, value in ignored.items())
        warnings.warn(f"firth does not apply these settings of the model's generation: {told}", stacklevel=4)


def _searching(table: Mapping[str, Any]) -> dict[str, Any]:
    """By the rules of `transformers`."""
    settings, longest = _drawn(table), table.get("max_length")
    if "tokens" not in settings and longest and longest > 1:
        settings["tokens"] = longest - 1  # theirs counts the decoder's first input
    ignored = _unapplied(table, SEARCH)
    early, penalty = table.get("early_stopping") or False, table.get("length_penalty")
    if early not in (True, False):
        ignored["early_stopping"] = early
    if penalty is not None and penalty < 0:
        ignored["length_penalty"] = penalty
    if several := [words for words in table.get("bad_words_ids") or () if len(words) > 1]:
        ignored["bad_words_ids"] = several
    _warn(ignored)
    return settings | {
        "beam": table.get("num_beams") or 1,
        "penalty": 1.0 if penalty is None else max(0.0, float(penalty)),
        "beam_rules": "transformers",
        "early_stopping": early is True,
    }
