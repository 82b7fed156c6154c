"""The row of <mask>. In public masked language models [MASK] is one of the tokens; our embedding has a row for it after those of
the vocabulary, which the model never predicts (models/readouts.py).

    in:   our row V is a copy of the row of [MASK]
    out:  the row of [MASK] is our row V; a vocabulary without [MASK] gets one token more, <mask>, with that row
"""

from __future__ import annotations

from collections.abc import Mapping

import tokenizers
import torch
from tokenizers import AddedToken
from torch import Tensor

from firth.errors import DataError
from firth.text.tokenizers.tokenizer import Tokenizer

NAME = "<mask>"
TABLE = "encoder.embedding.weight"
_BIASES = ("output_bias", "output.bias")  # a number per token
_NEVER = -1e4  # the bias of a token that is never predicted; e^−10000 is 0 in every type


def expect(tokenizer: Tokenizer) -> None:
    if tokenizer.mask is None:
        raise DataError("the tokenizer has no mask token, which a masked language model needs. Set mask_token in its config.")


def without(shapes: Mapping[str, torch.Size]) -> dict[str, torch.Size]:
    """The shapes that a checkpoint is read with."""
    rows, width = shapes[TABLE]
    return {**shapes, TABLE: torch.Size((rows - 1, width))}


def added(weights: Mapping[str, Tensor], tokenizer: Tokenizer) -> dict[str, Tensor]:
    table_Ve, mask = weights[TABLE], tokenizer.mask
    assert mask is not None
    return {**weights, TABLE: torch.cat((table_Ve, table_Ve[mask : mask + 1]))}


def removed(weights: Mapping[str, Tensor], tokenizer: Tokenizer) -> dict[str, Tensor]:
    if tokenizer.mask is not None:
        table_Ve = weights[TABLE][:-1].clone()
        table_Ve[tokenizer.mask] = weights[TABLE][-1]
        return {**weights, TABLE: table_Ve}
    of_tokens = {name: weights[name] for name in (*_BIASES, "output.weight") if len(weights.get(name, ())) == tokenizer.vocab}
    return {**weights, **{name: torch.cat((tensor, _last(name, tensor))) for name, tensor in of_tokens.items()}}


def _last(name: str, tensor: Tensor) -> Tensor:
    """The row of <mask> in the output layer."""
    return torch.full_like(tensor[:1], _NEVER if name in _BIASES else 0.0)


def rows(tokenizer: Tokenizer) -> int:
    """The number of rows of an exported model's embedding."""
    return tokenizer.vocab + (tokenizer.mask is None)


def tokenizer_json(tokenizer: Tokenizer) -> str:
    if tokenizer.mask is not None:
        return tokenizer.to_json()
    theirs = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    theirs.add_special_tokens([AddedToken(NAME, normalized=False)])
    return str(theirs.to_str())
