"""Encoders and their heads. A family of encoders is one body with several heads, each an architecture of its own in
`transformers`: without a head, as a masked language model, a classifier, a tagger or a question answerer.

`encoder_families` makes a `Family` of each: the body's weights with those of the head. What belongs to another head is ignored,
so that an encoder can be read out of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firth.errors import ConfigError
from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, Settings
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap

AUTO = {
    "embedding": "AutoModel",
    "masked": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "electra": "AutoModelForPreTraining",
}
_OF_PREDICTIONS = frozenset({"transform_bias", "transform_activation", "tied", "output_bias"})  # of a masked language model
# Settings that mean nothing to a head, by its objective, whatever their value.
_FREE: Mapping[str, frozenset[str]] = {
    "classification": _OF_PREDICTIONS,
    "embedding": _OF_PREDICTIONS | {"transform", "pooler"},
    "masked": frozenset({"transform", "pool", "pooler", "tied"}),
    "electra": _OF_PREDICTIONS | {"transform", "pool", "pooler"},
    "tagging": _OF_PREDICTIONS | {"pool", "pooler"},
    "answer": _OF_PREDICTIONS | {"pool", "pooler"},
}
# Those of which it knows some values; `sentence-transformers` has these pools.
_LIMITED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "embedding": {"pool": ("mean", "first", "last", "max")},
    "masked": {"output_bias": (None, True)},
}


@dataclass(frozen=True)
class Head:
    objective: str
    architecture: str
    weights: tuple[Weight, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of [model], which this head needs
    also: tuple[str, ...] = ()  # other architectures that are read as this one
    limited: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # further settings with their only values
    objective_settings: Mapping[str, Any] = field(default_factory=dict)  # of [objective]
    left_out: str = ""  # our tensors whose names begin with this have no counterpart
    repeated: Mapping[str, str] = field(default_factory=dict)  # copies that a checkpoint may hold, and what of
    renamed: Mapping[str, str] = field(default_factory=dict)  # other names of its tensors
    read: Callable[[ForeignConfig], Mapping[str, Any]] = lambda _: {}  # settings of [model] that config.json has for this head


def labelling_heads(name: str, pooler: str, activation: str = "tanh", output: str = "classifier.{p}") -> tuple[Head, ...]:
    """The heads for classes, tags and answers of the architectures whose names begin with `name`. Classes come from the first
    token, by way of `pooler` and `output`."""
    return (
        Head(
            "classification",
            f"{name}ForSequenceClassification",
            (Weight("pooler.{p}", pooler), Weight("output.{p}", output)),
            {"pool": "first", "pooler": activation},
        ),
        Head("tagging", f"{name}ForTokenClassification", (Weight("output.{p}", "classifier.{p}"),)),
        Head("answer", f"{name}ForQuestionAnswering", (Weight("output.{p}", "qa_outputs.{p}"),)),
    )


@dataclass(frozen=True)
class EncoderBody:
    title: str
    model_type: str
    prefix: str  # of its tensors in an architecture with a head
    weights: tuple[Weight, ...]
    config: tuple[Entry, ...]
    ignored: tuple[str, ...] = ()
    why_not: Callable[[Any, str], str | None] = lambda model, objective: None  # why a [model] does not fit, if settings do
    pooler: tuple[Any, str] | None = None  # of the model without a head: its activation, and a tensor that it has


def encoder_families(body: EncoderBody, heads: tuple[Head, ...]) -> tuple[Family, ...]:
    """The model without a head first: a config.json without `architectures` is one."""
    return tuple(_family(body, head, heads) for head in heads)


def _family(body: EncoderBody, head: Head, heads: tuple[Head, ...]) -> Family:
    others = tuple(name for one in heads for weight in one.weights for name in weight.theirs)
    bare = tuple(name.removeprefix(body.prefix) for name in (*others, *body.ignored))
    family = Family(
        title=body.title if head.objective in ("embedding", "masked") else f"{body.title} ({head.objective})",
        model_type=body.model_type,
        architecture=head.architecture,
        objective=head.objective,
        weights=WeightMap(
            (*body.weights, *head.weights),
            ignored=(*others, *body.ignored, *bare),
            repeated=head.repeated,
            renamed=head.renamed,
            prefix=body.prefix,
            bare=head.objective == "embedding",
        ),
        config=(Entry(lambda config, _: head.read(config)), *body.config, _entry(head)),
        model="encoder",
        also=head.also,
        mask_row=head.objective in ("masked", "electra"),
        labelled=head.objective in ("classification", "tagging"),
        optional=("pooler", *body.pooler) if head.objective == "embedding" and body.pooler else None,
        auto_class=AUTO[head.objective],
        objective_settings=head.objective_settings,
        together=lambda model: body.why_not(model, head.objective),
        left_out=head.left_out,
    )
    return family


def _entry(head: Head) -> Entry:
    """The settings that this head needs, or that mean nothing to it."""

    def read(config: ForeignConfig, before: Settings) -> Settings:
        if head.objective == "classification":
            config.expect("problem_type", None, "single_label_classification")
        for name, values in head.limited.items():
            if (given := before.get(name, values[0])) not in values:
                raise ConfigError(f"model.{name} is {given!r}; with this head it can only be {values[0]!r}")
        return head.settings

    only = {name: (value,) for name, value in head.settings.items()}
    free = _FREE[head.objective] - head.settings.keys() - head.limited.keys()
    return Entry(read, free=free, limited={**only, **_LIMITED.get(head.objective, {}), **head.limited})
