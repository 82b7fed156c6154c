"""Initialise a model from pretrained weights: word vectors as its embedding (S8), or the weights of another run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.models.config import TransformerSettings
from firth.models.network import ModelConfig, Network
from firth.models.readouts import Readout
from firth.models.seq2seq import Seq2Seq

# Settings that determine the role of a weight. Not `tied` or dropout, which change none of the weights that both models have.
_MEANING = (
    "kind",
    "attention",
    "width",
    "depth",
    "encoder_depth",
    "embedding",
    "bidirectional",
    "reset",
    "heads",
    "kv_heads",
    "head_width",
    "hidden",
    "score",
    "position",
    "position_base",
    "position_order",
    "max_distance",
    "distance_buckets",
    "rotary_fraction",
    "window_pattern",
    "position_base_local",
    "norm",
    "norm_eps",
    "qk_norm",
    "norm_placement",
    "embedding_norm",
    "embedding_scale",
    "parallel_block",
    "activation",
    "bias",
    "output_scale",
)
_OF_TOKENS = ("embedding.weight", "output.weight", "output.bias", "output_bias")  # one row per token
_SHOWN = 6  # names in a message


def read_embedding(model: Network) -> nn.Embedding:
    """The embedding of a model's input tokens."""
    return model.source_embedding if isinstance(model, Seq2Seq) else model.embedding


def embed(model: Network, tokens: Sequence[str], file: str, fixed: bool) -> int:
    """Give each token that has a vector in `file` that vector, and return how many have one. The others keep their random vector,
    rescaled to the average length of the file's, so that neither dominates.

    A token that is not in the file is looked up in lower case. With `fixed` the whole embedding is not trained. If source and
    target have separate embeddings, the source's is set.
    """
    from firth.vectors import load

    vectors = load(Path(file))
    table_Ve = read_embedding(model).weight
    if vectors.width != table_Ve.shape[1]:
        raise ConfigError(
            f"the vectors in {file} have dimension {vectors.width}, the model's embedding {table_Ve.shape[1]}; "
            f"set {model.embedding_setting} = {vectors.width}"
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
    """Which weights of a model were taken from another."""

    taken: int
    new: tuple[str, ...]  # weights that keep their initial values
    partly: tuple[str, ...] = ()  # tables of which only the common tokens were taken

    def told(self, run: str) -> str:
        more = f" and {len(self.new) - _SHOWN} more" if len(self.new) > _SHOWN else ""
        new = f"; new: {', '.join(self.new[:_SHOWN])}{more}" if self.new else ""
        return f"{self.taken} of {self.taken + len(self.new)} weights initialised from {run}{new}"


def check_meaning(there: ModelConfig, here: ModelConfig, run: str) -> None:
    """Refuse weights that were trained with other settings: a matrix of the same shape may have another role."""
    both = [name for name in _MEANING if hasattr(there, name) and hasattr(here, name)]
    names = [name for name in both if (getattr(there, name), getattr(here, name)) != (None, None)]
    if getattr(here, "position", None) == "learned":
        names.append("context")
    other = [
        f"model.{name} is {json.dumps(_setting(there, name))} there and {json.dumps(_setting(here, name))} here"
        for name in names
        if _setting(there, name) != _setting(here, name)
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


def _setting(config: ModelConfig, name: str) -> Any:
    """The setting, or its default if it is not given."""
    match name:
        case "kv_heads" if isinstance(config, TransformerSettings):
            return config.groups
        case "hidden" if isinstance(config, TransformerSettings):
            return config.inner
        case "embedding":
            return getattr(config, name) or config.width
        case _:
            return getattr(config, name)


def _sources(names: Sequence[str], weights: Iterable[str]) -> Iterator[tuple[str, str]]:
    """For each name its name in the other network, with the pair of prefixes that matches most names."""
    there = set(weights)
    pairs = [(old, new) for old in _prefixes(there) for new in _prefixes(names)]
    # Ties go to the more similar prefixes: an encoder matches an encoder rather than a decoder.
    old, new = max(pairs, key=lambda pair: (len(_shared(names, there, *pair)), _alike(*pair), -len(pair[1])))
    found = _shared(names, there, old, new)
    if not found:
        return
    yield from found.items()
    # A stack of blocks may be part of an encoder there and stand alone here; its embedding is then beside it.
    tables = [[name for name in one if name.endswith("embedding.weight")] for one in (names, sorted(there))]
    if len(tables[0]) == len(tables[1]) == 1 and tables[0][0] not in found:
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
    found = {""}
    for name in names:
        parts = name.split(".")[:-1]
        for count in range(1, len(parts) + 1):
            if parts[count - 1].isdecimal():
                break
            found.add(".".join(parts[:count]) + ".")
    return sorted(found)


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
