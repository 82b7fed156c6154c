"""A family of public models: a table of its weights and one of its config.json, both read in both directions.

Each file beside this one defines one `Family`, and `FAMILIES` in __init__.py lists them. A model of ours belongs to a family if
every one of its settings is `free` there, `limited` to the values that it has, or at its default: a setting that a family has
never heard of is refused, not lost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from firth.config import settings
from firth.interop.files.config_map import Entry, size
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import WeightMap
from firth.models import ModelConfig, TransformerConfig, TransformerEncoderConfig, TransformerSeq2SeqConfig
from firth.models.config import transformer

# Settings that any family can express, because they only matter in training.
_TRAINING = frozenset({"dropout", "embedding.vectors", "embedding.vectors_fixed"})

_CONFIGS: Mapping[str, Any] = MappingProxyType(
    {"language": TransformerConfig, "encoder": TransformerEncoderConfig, "seq2seq": TransformerSeq2SeqConfig}
)

# by their most common names
SIZES = (size("width", "hidden_size"), size("depth", "num_hidden_layers"), size("attention.heads", "num_attention_heads"))
UNBIASED_OUTPUT = Entry(lambda config, before: {"output_bias": False})  # of a language model, besides other biases


@dataclass(frozen=True)
class Family:
    title: str  # "LLaMA": for tables and messages
    model_type: str  # as config.json says
    architecture: str  # the class in `transformers`
    weights: WeightMap | Callable[[Any], WeightMap]  # a function where the names depend on [model]
    config: tuple[Entry, ...]  # config.json, without what every family has
    objective: str = "next-token"  # objective.kind of its runs
    model: str = "language"  # model.family of its runs
    also: tuple[str, ...] = ()  # other architectures that are read as this one
    mask_row: bool = False  # whether our embedding has a row for <mask> after those of the vocabulary
    labelled: bool = False  # whether config.json names classes or tags
    # a setting of [model], its value, and the tensor that a checkpoint has only if the setting has this value
    optional: tuple[str, Any, str] | None = None
    auto_class: str = "AutoModelForCausalLM"  # the class that opens it, for the model card
    objective_settings: Mapping[str, Any] = field(default_factory=dict)  # of [objective] in its runs
    padding: Callable[[Any], int | None] = lambda model: None  # the padding token that [model] needs, if not any will do
    left_out: str = ""  # our tensors whose names begin with this are not written
    # why a model cannot be written although each of its settings can
    together: Callable[[Any], str | None] = lambda model: None

    @property
    def free(self) -> frozenset[str]:
        """Settings of [model] that config.json can express, whatever their value."""
        return frozenset(name for entry in self.config for name in entry.free)

    @property
    def limited(self) -> Mapping[str, tuple[Any, ...]]:
        """Settings with the values that config.json can express."""
        return {name: values for entry in self.config for name, values in entry.limited.items()}

    def read(self, config: ForeignConfig) -> ModelConfig:
        """The [model] of a config.json."""
        settings: dict[str, Any] = {}
        for entry in self.config:
            settings |= entry.read(config, settings)
        model: ModelConfig = transformer(_CONFIGS[self.model], settings)
        return model

    def write(self, model: Any) -> dict[str, Any]:
        """The config.json of a [model]."""
        return {key: value for entry in self.config for key, value in entry.write(model).items()}

    def reads(self, architecture: str) -> bool:
        return architecture in (self.architecture, *self.also)

    def completed(self, model: ModelConfig, names: Collection[str]) -> ModelConfig:
        """The [model] of a checkpoint with tensors of these names."""
        if self.optional is None:
            return model
        setting, value, tensor = self.optional
        bare = tensor.removeprefix(self.weights_of(model).prefix)
        given: Any = model
        config: ModelConfig = dataclasses.replace(given, **{setting: value if tensor in names or bare in names else None})
        return config

    def weights_of(self, model: ModelConfig) -> WeightMap:
        return self.weights if isinstance(self.weights, WeightMap) else self.weights(model)

    def why_not(self, model: ModelConfig) -> str | None:
        """Why a model of ours cannot be written as one of this family."""
        if model.family != self.model or model.kind != "transformer":
            return f'model.family = "{model.family}" with model.kind = "{model.kind}"'
        for name, given, default in settings(model):
            value = _plain(model, name, given)
            named = name in ("family", "kind") or name in self.free | _TRAINING
            if not named and value not in self.limited.get(name, (default,)):
                return f"model.{name} = {value!r}"
        return self.together(model)


def _plain(model: Any, name: str, value: Any) -> Any:
    """The setting, None where it is what None means."""
    if name == "output_bias" and model.family == "language":
        return model.biased_output or None
    if (name, value) == ("norm.bias", model.bias is True):
        return None
    heads = model.attention.heads
    if (name, value) in (("attention.kv_heads", heads), ("attention.head_width", model.width // heads)):
        return None
    return value
