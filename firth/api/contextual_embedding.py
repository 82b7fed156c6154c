"""Texts in, vectors that depend on context out: of texts, of tokens, of words, and of one word in many sentences.

Letters: N texts or words, T tokens, W words, d width.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from firth.api.unseen_words import say_unseen
from firth.errors import ConfigError, DataError, did_you_mean
from firth.evaluation.wic import Pairs, cosines, measure
from firth.inspection.contextual_vectors import layer_number, layers, longest
from firth.inspection.merge_pieces import words_of
from firth.inspection.senses import Senses, occurrence, senses
from firth.models import Seq2Seq
from firth.progress import silent
from firth.text import Progress, Tokenizer
from firth.text.batches.padding import padded
from firth.text.batches.pairs import packed
from firth.text.data.parallel import encode_source
from firth.text.data.sentence_pairs import sentence
from firth.text.datasets.wic import WordPair, read_wic
from firth.text.tokenizers.offsets import Span, covering, offsets
from firth.text.tokenizers.special_tokens import Ids

if TYPE_CHECKING:
    from firth.api.model import Model

Array = npt.NDArray[np.float32]
TextPool = Literal["first", "last", "mean", "max"]  # a vector for each text
Pooling = Literal[TextPool, "words"]

_EDGE = re.compile(r"(?<=\w)(?=[^\w\s'’-])|(?<=[^\w\s'’-])(?=\w)")  # of a word; don't and well-known are one
_CELLS = {"cpu": 4096, "cuda": 65_536}  # tokens read together, padding included


@dataclass(frozen=True)
class Encoded:
    """Texts as a model reads them. A source ends with <eos>, which is read, and has no vector here."""

    tokenizer: Tokenizer
    texts: list[str]
    ids: list[Ids]
    own_N: list[int]  # tokens that are of the text


def embed(model: Model, texts: Sequence[str], layer: int, pool: Pooling | None, progress: Progress = silent) -> Any:
    """See Model.embed."""
    if pool is not None and pool not in get_args(Pooling):
        raise ConfigError(
            f'pool is "{pool}"; expected one of the kinds of pooling, or None.{did_you_mean(pool, get_args(Pooling))}'
        )
    number = layer_number(model.network, layer)
    encoded = encode(model, texts)
    found: dict[int, Array] = {}
    for row, states in read(model, encoded, progress):
        x_Td = states[number]
        found[row] = by_words(x_Td, encoded, row) if pool == "words" else x_Td if pool is None else pooled(x_Td, pool)
    rows = [found[row] for row in range(len(found))]
    if pool is None or pool == "words":
        return rows
    return np.stack(rows) if rows else np.zeros((0, _width(model, number)), np.float32)


def pooled(x_Td: Array, pool: TextPool) -> Array:
    found: dict[TextPool, Callable[[Array], Array]] = {
        "first": lambda x_Td: x_Td[0],
        "last": lambda x_Td: x_Td[-1],
        "mean": lambda x_Td: x_Td.mean(0),
        "max": lambda x_Td: x_Td.max(0),
    }
    return found[pool](x_Td)


def by_words(x_Td: Array, encoded: Encoded, row: int) -> Array:
    """x_Wd: the mean of the pieces of each word."""
    tokenizer = encoded.tokenizer
    pieces = [tokenizer.token(int(id)) for id in encoded.ids[row][: encoded.own_N[row]]]
    words, number_T = words_of(pieces, merged=tokenizer.kind != "word")  # characters are pieces of words, too
    x_Wd = np.zeros((len(words), x_Td.shape[1]), np.float32)
    np.add.at(x_Wd, number_T, x_Td)
    found: Array = x_Wd / np.bincount(number_T, minlength=len(words)).astype(np.float32)[:, None]
    return found


def compare(model: Model, word: str, sentences: Sequence[str], layer: int) -> Senses:
    """See Model.senses."""
    number = layer_number(model.network, layer)
    if isinstance(sentences, str) or len(sentences) < 2:
        raise ConfigError("senses compares one word in several sentences; give a list of two sentences or more that have it")
    shown = [_line(model, text) for text in sentences]
    spans = [occurrence(text, word) for text in shown]
    return senses(word, sentences, word_vectors(model, list(zip(shown, spans, strict=True))), number)


def wic(model: Model, folder: str | Path | None, progress: Progress = silent) -> dict[str, object]:
    """See Model.wic."""
    train, dev = (_pairs(model, pairs, progress) for pairs in read_wic(folder, progress))
    return {**dataclasses.asdict(measure(train, dev)), "split": "valid"}


def _pairs(model: Model, pairs: Sequence[WordPair], progress: Progress) -> Pairs:
    """cos of the word's two vectors, in every layer."""
    places = [_placed(model, place.sentence, place.span) for pair in pairs for place in (pair.first, pair.second)]
    found = word_vectors(model, places, progress)
    same_N = np.array([pair.same for pair in pairs])
    return Pairs({layer: cosines(x_Nd[::2], x_Nd[1::2]) for layer, x_Nd in enumerate(found)}, same_N)


def word_vectors(model: Model, places: Sequence[tuple[str, Span]], progress: Progress = silent) -> list[Array]:
    """x_Nd of the word at each place, of every layer: the mean of its tokens."""
    apart = [_set_apart(*place) for place in places] if _tokenizer(model).kind == "word" else places
    encoded = encode(model, [text for text, _ in apart])
    spans_N = offsets(encoded.tokenizer, encoded.texts)
    token_N = [covering(spans, span) for spans, (_, span) in zip(spans_N, apart, strict=True)]
    for (text, (start, end)), tokens in zip(places, token_N, strict=True):
        if not tokens:
            raise DataError(f"{text[start:end]!r}, characters {start} to {end} of {text!r}, has no token; expected a word")
    found: dict[int, list[Array]] = {}
    for row, states in read(model, encoded, progress):
        found[row] = [x_Td[token_N[row]].mean(0) for x_Td in states]
    return [np.stack(x) for x in zip(*(found[row] for row in range(len(found))), strict=True)]


def _set_apart(text: str, span: Span) -> tuple[str, Span]:
    """For words that white space alone tells apart: punctuation by itself, as the texts that they are learned from have it."""
    start, end = span
    before, behind = (_EDGE.sub(" ", part) for part in (text[:start], text[end:]))
    before = f"{before} " if before.strip() else before
    return f"{before}{text[start:end]} {behind}", (len(before), len(before) + end - start)


def read(model: Model, encoded: Encoded, progress: Progress = silent) -> Iterator[tuple[int, list[Array]]]:
    """For each text, in an order that pads little: its number, and x_Td of every layer."""
    network, device = model.network, next(model.network.parameters()).device
    length_N = np.array([len(ids) for ids in encoded.ids], np.int64)
    done = 0
    for row_B in packed(np.argsort(-length_N, kind="stable"), length_N, _CELLS.get(device.type, _CELLS["cpu"])):
        token_BT, length_B = (torch.from_numpy(part).to(device) for part in padded([encoded.ids[row] for row in row_B]))
        states = [x_BTd.float().cpu().numpy() for x_BTd in layers(network, token_BT, length_B)]
        for place, row in enumerate(row_B.tolist()):
            yield row, [x_BTd[place, : encoded.own_N[row]] for x_BTd in states]
        done += len(row_B)
        progress("reading", done, len(encoded.ids))


def encode(model: Model, texts: Sequence[str]) -> Encoded:
    """Words never seen in training are said once for all texts; a text without tokens, or too long, is refused."""
    if isinstance(texts, str):
        raise ConfigError(f"a list of texts is wanted; a single one was given; write [{texts[:20]!r}]")
    tokenizer = _tokenizer(model)
    found = Encoded(tokenizer, [_line(model, text) for text in texts], [], [])
    unseen: dict[str, None] = {}
    for number, text in enumerate(found.texts, start=1):
        ids = tokenizer.encode(text)
        if not len(ids):
            raise DataError(f"text {number} is {text!r}, which has nothing to read; expected a word or more")
        if tokenizer.unknown is not None and (ids == tokenizer.unknown).any():
            unseen |= dict.fromkeys(tokenizer.unseen(text))
        found.own_N.append(len(ids))
        found.ids.append(encode_source(text, tokenizer, model.recipe.data) if _translates(model) else ids)
        _check_length(model, number, len(found.ids[-1]))
    say_unseen(unseen)
    return found


def _check_length(model: Model, number: int, length: int) -> None:
    most = longest(model.network)
    if most is not None and length > most:
        raise DataError(
            f"text {number} has {length:,} tokens; the learned positions of this model end after {most:,} (model.context); cut it"
        )


def _translates(model: Model) -> bool:
    return isinstance(model.network, Seq2Seq) and model.recipe.objective.kind == "translation"


def _tokenizer(model: Model) -> Tokenizer:
    return model.source_tokenizer if _translates(model) else model.tokenizer


def _line(model: Model, text: str) -> str:
    return sentence(text, model.recipe.data) if _translates(model) else text


def _placed(model: Model, text: str, span: Span) -> tuple[str, Span]:
    """A place in the text as the model reads it, which may begin later."""
    line = _line(model, text)
    cut = len(text) - len(text.lstrip()) if _translates(model) else 0
    return line, (span[0] - cut, span[1] - cut)


def _width(model: Model, layer: int) -> int:
    token_11, length_1 = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    return layers(model.network, token_11.to(model.device), length_1.to(model.device))[layer].shape[-1]
