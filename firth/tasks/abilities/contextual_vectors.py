"""Contextual vectors of texts, of tokens, of words, and of one word in many sentences.

Letters: N texts or words, T tokens, W words, d width.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from firth.errors import ConfigError, DataError, did_you_mean
from firth.evaluation.wic import PairCosines, cosines, measure
from firth.inspection.contextual_vectors import layer_number, layers, longest
from firth.inspection.merge_pieces import words_of
from firth.inspection.senses import Senses, occurrence, senses
from firth.models import Network
from firth.models.stack import Stack
from firth.progress import Progress, silent
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.text.batches.padding import padded
from firth.text.batches.pairs import packed
from firth.text.config import PairsConfig
from firth.text.data.pairs import encode_source
from firth.text.data.sentence_pairs import sentence
from firth.text.datasets.wic import WordPair, read_wic
from firth.text.tokenizers.offsets import Span, covering, offsets
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

Array = npt.NDArray[np.float32]
TextPool = Literal["first", "last", "mean", "max"]  # one vector per text
Pooling = Literal[TextPool, "words"]

_EDGE = re.compile(r"(?<=\w)(?=[^\w\s'’-])|(?<=[^\w\s'’-])(?=\w)")  # of a word; don't and well-known are one
_CELLS = {"cpu": 4096, "cuda": 65_536}  # tokens read together, padding included


@dataclass(frozen=True)
class Encoded:
    """Tokenised texts. A source of sentence pairs ends with <eos>, and an imported model may expect special tokens before and
    after a text: the network reads them, but they have no vectors here."""

    tokenizer: Tokenizer
    texts: list[str]
    ids: list[Ids]
    own_N: list[int]  # tokens that belong to the text itself
    cut: int = 0  # texts of which only the beginning is here

    def own(self, row: int) -> slice:
        """The slice of a text's own tokens."""
        start = len(self.tokenizer.begin)
        return slice(start, start + self.own_N[row])


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A network and how texts are tokenised for it. With `pairs`, they are sources of sentence pairs: stripped, lower-cased where
    the recipe says so, and closed by <eos>. Texts are cut at `longest` tokens, special ones included."""

    network: Network
    tokenizer: Tokenizer
    pairs: PairsConfig | None = None
    longest: int | None = None

    def line(self, text: str) -> str:
        """The text as the tokenizer gets it."""
        return text if self.pairs is None else sentence(text, self.pairs)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """One warning for all words never seen in training; an empty or too long text is an error."""
        if isinstance(texts, str):
            raise ConfigError(f"expected a list of texts. Write [{texts[:20]!r}].")
        encoded = Encoded(self.tokenizer, [self.line(text) for text in texts], [], [])
        unseen: dict[str, None] = {}
        room = None if self.longest is None else self.longest - len(self.tokenizer.begin) - len(self.tokenizer.end)
        cut = 0
        for number, text in enumerate(encoded.texts, start=1):
            ids = self.tokenizer.encode(text)
            if room is not None and len(ids) > room:
                ids, cut = ids[:room], cut + 1
            if not len(ids):
                raise DataError(f"text {number} is {text!r}, which has no tokens; expected at least one word")
            if self.tokenizer.unknown is not None and (ids == self.tokenizer.unknown).any():
                unseen |= dict.fromkeys(self.tokenizer.unseen(text))
            encoded.own_N.append(len(ids))
            whole = self.tokenizer.surrounded(ids) if self.pairs is None else encode_source(text, self.tokenizer, self.pairs)
            encoded.ids.append(whole)
            refuse_longer(self.network, len(encoded.ids[-1]), f"text {number}")
        warn_unseen(unseen)
        return dataclasses.replace(encoded, cut=cut)


def refuse_longer(network: Network, length: int, what: str = "the text") -> None:
    """Learned positions end somewhere; a text is never truncated silently. Dynamic ones depend on the longest text of a batch."""
    most = longest(network)
    if most is not None and length > most and isinstance(network, Stack) and network.scheme.end is None:
        raise DataError(
            f'{what} has {length:,} tokens, but with model.position.scaling = "dynamic" this model reads at most {most:,} in a '
            "batch with other texts. Shorten it."
        )
    if most is not None and length > most:
        raise DataError(f"{what} has {length:,} tokens, but the learned positions of this model end at {most:,}. Shorten it.")


def embed(encoder: TextEncoder, texts: Sequence[str], layer: int, pool: Pooling | None, progress: Progress = silent) -> Any:
    """See Run.embed."""
    if pool is not None and pool not in get_args(Pooling):
        raise ConfigError(
            f'pool is "{pool}"; choose {", ".join(get_args(TextPool))}, words or None.{did_you_mean(pool, get_args(Pooling))}'
        )
    number = layer_number(encoder.network, layer)
    encoded = encoder.encode(texts)
    vector_of: dict[int, Array] = {}
    for row, states in read(encoder, encoded, progress):
        x_Td = states[number][encoded.own(row)]
        vector_of[row] = by_words(x_Td, encoded, row) if pool == "words" else x_Td if pool is None else pooled(x_Td, pool)
    rows = [vector_of[row] for row in range(len(vector_of))]
    if pool is None or pool == "words":
        return rows
    return np.stack(rows) if rows else np.zeros((0, _width(encoder, number)), np.float32)


def pooled(x_Td: Array, pool: TextPool) -> Array:
    pooling: dict[TextPool, Callable[[Array], Array]] = {
        "first": lambda x_Td: x_Td[0],
        "last": lambda x_Td: x_Td[-1],
        "mean": lambda x_Td: x_Td.mean(0),
        "max": lambda x_Td: x_Td.max(0),
    }
    return pooling[pool](x_Td)


def by_words(x_Td: Array, encoded: Encoded, row: int) -> Array:
    """x_Wd: the mean of the pieces of each word."""
    tokenizer = encoded.tokenizer
    pieces = [tokenizer.token(int(id)) for id in encoded.ids[row][encoded.own(row)]]
    words, number_T = words_of(pieces, merged=not tokenizer.whole_words)  # characters are pieces of words, too
    x_Wd = np.zeros((len(words), x_Td.shape[1]), np.float32)
    np.add.at(x_Wd, number_T, x_Td)
    mean_Wd: Array = x_Wd / np.bincount(number_T, minlength=len(words)).astype(np.float32)[:, None]
    return mean_Wd


def compare(encoder: TextEncoder, word: str, sentences: Sequence[str], layer: int) -> Senses:
    """See Run.senses."""
    number = layer_number(encoder.network, layer)
    if isinstance(sentences, str) or len(sentences) < 2:
        raise ConfigError("senses compares one word across sentences. Give a list of two or more sentences that contain it.")
    shown = [encoder.line(text) for text in sentences]
    spans = [occurrence(text, word) for text in shown]
    return senses(word, sentences, word_vectors(encoder, list(zip(shown, spans, strict=True))), number)


def wic(encoder: TextEncoder, folder: str | Path | None, progress: Progress = silent) -> dict[str, object]:
    """See Run.wic."""
    train, dev = (_pairs(encoder, pairs, progress) for pairs in read_wic(folder, progress))
    return {**dataclasses.asdict(measure(train, dev)), "split": "valid"}


def _pairs(encoder: TextEncoder, pairs: Sequence[WordPair], progress: Progress) -> PairCosines:
    """cos of the word's two vectors, in every layer."""
    places = [_placed(encoder, place.sentence, place.span) for pair in pairs for place in (pair.first, pair.second)]
    levels = word_vectors(encoder, places, progress)
    same_N = np.array([pair.same for pair in pairs])
    return PairCosines({layer: cosines(x_Nd[::2], x_Nd[1::2]) for layer, x_Nd in enumerate(levels)}, same_N)


def word_vectors(encoder: TextEncoder, places: Sequence[tuple[str, Span]], progress: Progress = silent) -> list[Array]:
    """x_Nd of the word at each place, of every layer: the mean of its tokens."""
    apart = [_set_apart(*place) for place in places] if encoder.tokenizer.whole_words else places
    encoded = encoder.encode([text for text, _ in apart])
    spans_N = offsets(encoded.tokenizer, encoded.texts)
    token_N = [covering(spans, span) for spans, (_, span) in zip(spans_N, apart, strict=True)]
    for (text, (start, end)), tokens in zip(places, token_N, strict=True):
        if not tokens:
            raise DataError(f"{text[start:end]!r}, characters {start} to {end} of {text!r}, has no token; expected a word")
    levels_of: dict[int, list[Array]] = {}
    for row, states in read(encoder, encoded, progress):
        levels_of[row] = [x_Td[encoded.own(row)][token_N[row]].mean(0) for x_Td in states]
    return [np.stack(x) for x in zip(*(levels_of[row] for row in range(len(levels_of))), strict=True)]


def _set_apart(text: str, span: Span) -> tuple[str, Span]:
    """For words that white space alone tells apart: punctuation by itself, as the texts that they are learned from have it."""
    start, end = span
    before, behind = (_EDGE.sub(" ", part) for part in (text[:start], text[end:]))
    before = f"{before} " if before.strip() else before
    return f"{before}{text[start:end]} {behind}", (len(before), len(before) + end - start)


def read(encoder: TextEncoder, encoded: Encoded, progress: Progress = silent) -> Iterator[tuple[int, list[Array]]]:
    """For each text, in an order that pads little: its number, and x_Td of every layer, special tokens included."""
    network, device = encoder.network, next(encoder.network.parameters()).device
    length_N = np.array([len(ids) for ids in encoded.ids], np.int64)
    done = 0
    for row_B in packed(np.argsort(-length_N, kind="stable"), length_N, _CELLS.get(device.type, _CELLS["cpu"])):
        token_BT, length_B = (torch.from_numpy(part).to(device) for part in padded([encoded.ids[row] for row in row_B]))
        states = [x_BTd.float().cpu().numpy() for x_BTd in layers(network, token_BT, length_B)]
        for place, row in enumerate(row_B.tolist()):
            yield row, [x_BTd[place, : len(encoded.ids[row])] for x_BTd in states]
        done += len(row_B)
        progress("reading", done, len(encoded.ids))


def _placed(encoder: TextEncoder, text: str, span: Span) -> tuple[str, Span]:
    """A place in the text as the model reads it, which may begin later."""
    line = encoder.line(text)
    cut = len(text) - len(text.lstrip()) if encoder.pairs is not None else 0
    return line, (span[0] - cut, span[1] - cut)


def _width(encoder: TextEncoder, layer: int) -> int:
    device = next(encoder.network.parameters()).device
    token_11, length_1 = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    return layers(encoder.network, token_11.to(device), length_1.to(device))[layer].shape[-1]
