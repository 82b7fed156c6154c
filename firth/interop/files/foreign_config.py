"""config.json of a public model, read key by key. A key that nobody reads and that may change the computation is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firth.errors import DataError
from firth.interop.files.foreign_json import is_number, shown

_LARGEST = 2**31  # no size reaches it

# Keys that say nothing about the computation of logits in evaluation: names, training, generation, and what a call returns.
_METADATA = frozenset(
    {
        "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "attention_dropout", "attn_pdrop",
        "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout",
        "custom_pipelines", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping",
        "embd_pdrop", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty", "finetuning_task",
        "firth_version", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label",
        "initializer_range", "is_decoder", "is_encoder_decoder", "is_llama_config", "keys_to_ignore_at_inference", "label2id",
        "length_penalty", "max_length", "min_length", "model_type", "n_ctx", "no_repeat_ngram_size", "num_beam_groups",
        "num_beams", "num_return_sequences", "output_attentions", "output_hidden_states", "output_past",
        "output_router_logits", "output_scores", "pad_token_id", "predict_special_tokens", "prefix", "pretraining_tp",
        "problem_type", "remove_invalid_values", "repetition_penalty", "resid_pdrop", "return_dict",
        "return_dict_in_generate", "sep_token_id", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj", "suppress_tokens", "task_specific_params",
        "temperature", "tf_legacy_loss", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript",
        "transformers.js_config", "transformers_version", "typical_p", "use_cache",
    }
)  # fmt: skip

# The same of encoder–decoders.
_METADATA |= {
    "activation_dropout", "classif_dropout", "decoder_layerdrop", "dropout", "dropout_rate", "encoder_layerdrop", "init_std",
    "initializer_factor",
}  # fmt: skip


def _is(value: Any, other: Any) -> bool:
    """Equality in which 1 is not true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


class ForeignConfig:
    """`take` and `expect` mark a key as read; `finish` refuses what is left. `name` stands in messages, and `tensors` are the
    shapes of the stored weights."""

    def __init__(
        self, table: Mapping[str, Any], name: str = "config.json", tensors: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self._left, self.name, self.tensors = dict(table), name, tensors or {}

    def take(self, key: str, default: Any = None) -> Any:
        """The value; `default` where the key is missing or null."""
        value = self._left.pop(key, None)
        return default if value is None else value

    def optional(self, key: str, default: float | None) -> float | None:
        """The number, or null; `default` only where the key is missing."""
        value: float | None = self._left.pop(key, default)
        if value is None or is_number(value):
            return value
        raise DataError(f"{self.name}: {key} is {shown(value)}; expected a number or null")

    def size(self, key: str, default: int | None = None) -> int:
        value = self.take(key, default)
        if type(value) is not int or not 1 <= value < _LARGEST:
            raise DataError(f"{self.name}: {key} is {shown(value)}; expected a whole number of at least 1")
        return value

    def one_of(self, key: str, other: str) -> int:
        """The size, which may have either name; with both, they have to agree."""
        value = self.size(key, self._left.get(other))
        self.expect(other, value)
        return value

    def size_or_none(self, key: str) -> int | None:
        """The whole number; None where the key is missing or null."""
        return None if self._left.get(key) is None else self.size(key)

    def table(self, key: str) -> dict[str, Any]:
        """A copy of the table; empty where the key is missing or null."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise DataError(f"{self.name}: {key} is {shown(value)}; expected a table")
        return dict(value)

    def words(self, key: str) -> list[str] | None:
        """The list of strings; None where the key is missing or null."""
        value = self.take(key)
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return value
        raise DataError(f"{self.name}: {key} is {shown(value)}; expected a list of strings")

    def whole(self, key: str, default: int) -> int:
        """A whole number, which may be negative."""
        value = self.take(key, default)
        if type(value) is not int or abs(value) >= _LARGEST:
            raise DataError(f"{self.name}: {key} is {shown(value)}; expected a whole number")
        return value

    def number(self, key: str, default: float) -> float:
        value = self.take(key, default)
        if not is_number(value):
            raise DataError(f"{self.name}: {key} is {shown(value)}; expected a number")
        return float(value)

    def positive(self, key: str, default: float) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise DataError(f"{self.name}: {key} is {value!r}; expected a number above 0")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false, where null is false; `default` only where the key is missing."""
        value = self._left.pop(key, default)
        if not isinstance(value, bool | None):
            raise DataError(f"{self.name}: {key} is {shown(value)}; expected true or false")
        return value is True

    def expect(self, key: str, *values: Any) -> Any:
        """The value, which has to be one of `values`; the first is the default."""
        value = self.take(key, values[0])
        if not any(_is(value, one) for one in values):
            raise DataError(f"{self.name}: {key} is {shown(value)}; firth only computes {' or '.join(map(repr, values))}.")
        return value

    def same(self, key: str, only: Any, default: Any) -> None:
        """Refuse any value except `only`; `default` is the meaning of a missing key."""
        value = self.take(key, default)
        if not _is(value, only):
            raise DataError(f"{self.name}: {key} is {shown(value)}; firth only computes {only!r} here.")

    def finish(self) -> None:
        unread = {key: value for key, value in self._left.items() if key not in _METADATA and value not in (None, False, [], {})}
        if unread:
            told = ", ".join(f"{key} = {str(value)[:40]}" for key, value in list(unread.items())[:3])
            raise DataError(f"{self.name} has settings that firth does not know: {told}. The model may need a newer firth.")
