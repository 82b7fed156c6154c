"""What a model begins with that was learned before: word vectors as its embedding (S8), the weights of another run."""

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

# The settings that say what a weight is for. `tied` is not among them, nor dropout: they change no weight of those both have.
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
    "hidden",
    "score",
    "position",
    "position_base",
    "max_distance",
    "distance_buckets",
    "norm",
    "norm_placement",
    "activation",
    "bias",
)
_OF_TOKENS = ("embedding.weight", "output.weight", "output.bias", "output_bias")  # a row for each token
_SHOWN = 6  # names in a message


def read_embedding(model: Network) -> nn.Embedding:
    """Of the tokens that a model is given to read."""
    return model.source_embedding if isinstance(model, Seq2Seq) else model.embedding


def embed(model: Network, tokens: Sequence[str], file: str, fixed: bool) -> int:
    """Give each token that has a vector in `file` that vector, and say how many have one. The others keep the one drawn, made as
    long as those of the file are on average: it would drown them, or be drowned.

    A token that is not there as it is spelled is looked for in lower case. With `fixed` the whole embedding stays as it is. Where
    both sides of a model have an embedding, it is the source's.
    """
    from firth.vectors import load

    vectors = load(Path(file))
    table_Ve = read_embedding(model).weight
    if vectors.width != table_Ve.shape[1]:
        raise ConfigError(
            f"the vectors in {file} have {vectors.width} numbers, and the model's embedding {table_Ve.shape[1]}; "
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
class Begun:
    """What became of the weights of a model that begins as another."""

    taken: int
    new: tuple[str, ...]  # those that keep what was drawn

    def told(self, run: str) -> str:
        more = f" and {len(self.new) - _SHOWN} more" if len(self.new) > _SHOWN else ""
        new = f"; new: {', '.join(self.new[:_SHOWN])}{more}" if self.new else ""
        return f"{self.taken} of {self.taken + len(self.new)} weights begin as those of {run}{new}"


def check_meaning(there: ModelConfig, here: ModelConfig, run: str) -> None:
    """Refuse to begin with weights that were learned for something else: a matrix of the same shape may mean another thing."""
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
        raise ConfigError(f'training.init = "{run}" does not fit: {", ".join(other)}; set what that run has, or leave it out')


def begin(model: Network, weights: Mapping[str, Tensor], vocab: int, *, whole: bool) -> Begun:
    """Give `model` the weights of another network by their names. Where one network is a part of the other, as an encoder of what
    is read from it, or a language model of a classifier made of it, names differ in a prefix, which is found.

    Both have the `vocab` tokens of one tokenizer. What else has a row in an embedding, <mask> and sentinels, is taken where both
    have as many, and otherwise left out. `whole`: what is read from an encoder means the same there, too; otherwise only the
    encoder is taken."""
    own = dict(model.named_parameters())
    wanted = [name for name in own if whole or not isinstance(model, Readout) or name.startswith("encoder.")]
    source = dict(_sources(wanted, weights))
    with torch.no_grad():
        for name, other in source.items():
            _copy(own[name], weights[other], vocab, name)
    return Begun(len(source), tuple(name for name in own if name not in source))


def _setting(config: ModelConfig, name: str) -> Any:
    """As it is meant, where it is left open."""
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
    """For each name the one it has in the other network, where it is there: with the two prefixes by which most are."""
    there = set(weights)
    pairs = [(old, new) for old in _prefixes(there) for new in _prefixes(names)]
    # Among those by which as many are: an encoder is rather an encoder than a decoder.
    old, new = max(pairs, key=lambda pair: (len(_shared(names, there, *pair)), _alike(*pair), -len(pair[1])))
    found = _shared(names, there, old, new)
    if not found:
        return
    yield from found.items()
    # A stack of blocks may stand in an encoder there and by itself here; its embedding then stands beside it.
    tables = [[name for name in one if name.endswith("embedding.weight")] for one in (names, sorted(there))]
    if len(tables[0]) == len(tables[1]) == 1 and tables[0][0] not in found:
        yield tables[0][0], tables[1][0]


def _shared(names: Sequence[str], there: set[str], old: str, new: str) -> dict[str, str]:
    renamed = {name: old + name.removeprefix(new) for name in names if name.startswith(new)}
    return {name: other for name, other in renamed.items() if other in there}


def _alike(old: str, new: str) -> int:
    """The parts with which both begin."""
    pairs = zip(old.split(".")[:-1], new.split(".")[:-1], strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _prefixes(names: Iterable[str]) -> list[str]:
    """Of the paths of modules: "", "encoder.", "encoder.stack.", … but none that goes into a list: its places mean something."""
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
            "make the [model] tables of both recipes agree, or leave it out"
        )
