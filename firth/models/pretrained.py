"""Initialise a model from pretrained weights: word vectors as its embedding, or the weights of another run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth.config import settings
from firth.errors import ConfigError
from firth.models.config import TransformerSettings
from firth.models.encoder_config import AverageConfig
from firth.models.network import ModelConfig, Network
from firth.models.readouts import Readout

# Settings that do not change the role of a weight, or only that of weights which the other model lacks.
_MAY_DIFFER = frozenset(
    {
        "family", "context", "tied", "shared", "output_bias", "segments", "pool", "pooler", "readout", "spelling.kind",
        "spelling.width", "transform", "transform_bias", "logit_cap", "embedding.vectors", "embedding.vectors_fixed",
        "attention.mask", "attention.span", "attention.scale", "attention.cap", "attention.feature_width", "position.scaling",
        "position.context", "position.factor",
    }
)  # fmt: skip
_OF_TOKENS = ("embedding.weight", "output.weight", "output.bias", "output_bias")  # one row per token
_SHOWN = 6  # names in a message


def embed(model: Network, tokens: Sequence[str], file: str, fixed: bool) -> int:
    """Give each token that has a vector in `file` that vector, and return how many have one. The others keep their random vector,
    rescaled to the average length of the file's, so that neither dominates.

    A token that is not in the file is looked up in lower case. With `fixed` the whole embedding is not trained. If source and
    target have separate embeddings, the source's is set.
    """
    from firth.vectors import load

    vectors = load(Path(file))
    table_Ve = model.source_embedding.weight
    if vectors.dim != table_Ve.shape[1]:
        raise ConfigError(
            f"the vectors in {file} have dimension {vectors.dim}, the model's embedding {table_Ve.shape[1]}; "
            f"set {model.embedding_setting} = {vectors.dim}"
        )
    place_N, row_N = [], []
    for place, token in enumerate(tokens):
        row = vectors.index.get(token, vectors.index.get(token.lower()))
        if row is not None:
            place_N.append(place)
            row_N.append(row)
    if not place_N:
        raise ConfigError(f'none of the {len(tokens):,} tokens has a vector in {file}; expected words: tokenizer.kind = "word"')
    with torch.no_grad():
        found_Ne = torch.from_numpy(vectors.vectors[row_N]).to(table_Ve)
        table_Ve *= found_Ne.square().mean().sqrt() / model.embedding_std
        table_Ve[place_N] = found_Ne
    table_Ve.requires_grad_(not fixed)
    return len(place_N)


@dataclass(frozen=True)
class Initialised:
    """The weights of a model that were taken from another."""

    taken: int
    new: tuple[str, ...]  # weights that keep their initial values
    partly: tuple[str, ...] = ()  # tables of which only the common tokens were taken

    def told(self, run: str) -> str:
        more = f" and {len(self.new) - _SHOWN} more" if len(self.new) > _SHOWN else ""
        new = f"; new: {', '.join(self.new[:_SHOWN])}{more}" if self.new else ""
        return f"{self.taken} of {self.taken + len(self.new)} weights initialised from {run}{new}"


def check_meaning(there: ModelConfig, here: ModelConfig, run: str) -> None:
    """Refuse weights that were trained with other settings: a matrix of the same shape may have another role."""
    old, new = _meanings(there), _meanings(here)
    if here.longest is not None:
        old["context"], new["context"] = there.context, here.context  # type: ignore[union-attr]
    for name in [name for name in new if (old.get(name), new[name]) == (None, None)]:
        del new[name]
    for config, table in ((there, old), (here, new)):
        table |= {name: value for name, value in _meant(config).items() if name in table}
    other = [
        f"model.{name} is {json.dumps(old[name])} there and {json.dumps(new[name])} here"
        for name in new
        if name in old and old[name] != new[name]
    ]
    if other:
        raise ConfigError(
            f'training.init = "{run}" does not fit: {", ".join(other)}; use the same settings, or remove training.init'
        )


def initialise(model: Network, weights: Mapping[str, Tensor], vocab: int, *, whole: bool) -> Initialised:
    """Copy the weights of another network to `model` by name. If one network is part of the other, such as the encoder of a
    classifier, their names differ by a prefix, which is found automatically.

    Both have the `vocab` tokens of one tokenizer. Further rows of an embedding, <mask> and sentinels, are copied if both have the
    same number of them. `whole`: the readout has the same meaning in both; otherwise only the encoder is copied."""
    own = dict(model.named_parameters())
    wanted = [name for name in own if whole or not isinstance(model, Readout) or name.startswith("encoder.")]
    source = dict(_sources(wanted, weights))
    with torch.no_grad():
        for name, other in source.items():
            _copy(own[name], weights[other], vocab, name)
    cut = [name for name, other in source.items() if own[name].shape != weights[other].shape and len(own[name]) > vocab]
    return Initialised(len(source), tuple(name for name in own if name not in source), tuple(cut))


def _meanings(config: ModelConfig) -> dict[str, Any]:
    """Every setting that determines the role of weights."""
    return {name: value for name, value, _ in settings(config) if name not in _MAY_DIFFER and "dropout" not in name}


def _meant(config: ModelConfig) -> dict[str, Any]:
    """The values of settings that need not be set."""
    if not isinstance(config, TransformerSettings):
        return {} if isinstance(config, AverageConfig) else {"embedding.width": config.embedding_width}
    meant = {"attention.kv_heads": config.attention.groups, "attention.head_width": config.per_head}
    return {**meant, "feedforward.hidden": config.inner, "embedding.width": config.embedding_width}


def _sources(names: Sequence[str], weights: Iterable[str]) -> Iterator[tuple[str, str]]:
    """For each name its name in the other network, with the pair of prefixes that matches most names."""
    there = set(weights)
    pairs = [(old, new) for old in _prefixes(there) for new in _prefixes(names)]
    # Ties go to the more similar prefixes: an encoder matches an encoder rather than a decoder.
    old, new = max(pairs, key=lambda pair: (len(_shared(names, there, *pair)), _alike(*pair), -len(pair[1])))
    shared = _shared(names, there, old, new)
    if not shared:
        return
    yield from shared.items()
    # A stack of blocks may be part of an encoder there and stand alone here; its embedding is then beside it.
    tables = [[name for name in one if name.endswith("embedding.weight")] for one in (names, sorted(there))]
    if len(tables[0]) == len(tables[1]) == 1 and tables[0][0] not in shared:
        yield tables[0][0], tables[1][0]


def _shared(names: Sequence[str], there: set[str], old: str, new: str) -> dict[str, str]:
    renamed = {name: old + name.removeprefix(new) for name in names if name.startswith(new)}
    return {name: other for name, other in renamed.items() if other in there}


def _alike(old: str, new: str) -> int:
    """The number of leading parts that both share."""
    pairs = zip(old.split(".")[:-1], new.split(".")[:-1], strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _prefixes(names: Iterable[str]) -> list[str]:
    """Prefixes of module paths: "", "encoder.", "encoder.stack.", … but none inside a list, whose indices matter."""
    prefixes = {""}
    for name in names:
        parts = name.split(".")[:-1]
        for count in range(1, len(parts) + 1):
            if parts[count - 1].isdecimal():
                break
            prefixes.add(".".join(parts[:count]) + ".")
    return sorted(prefixes)


def _copy(own: Tensor, other: Tensor, vocab: int, name: str) -> None:
    if own.shape == other.shape:
        own.copy_(other)
    elif name.endswith(_OF_TOKENS) and own.shape[1:] == other.shape[1:] and min(len(own), len(other)) >= vocab:
        own[:vocab] = other[:vocab].to(own)
    else:
        raise ConfigError(
            f"training.init does not fit: {name} has the shape {tuple(other.shape)} there and {tuple(own.shape)} here; "
            "use the same [model] settings, or remove training.init"
        )
