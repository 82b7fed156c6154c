"""One forward pass, ready to be inspected: the tokens that the network sees, specials included, and what to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import DataError
from firth.inspection.inputs import MASK, Reading
from firth.models import ConditionalDecoder, Network
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer


def one_reading(network: Network, tokenizer: Tokenizer, ids: Ids, forward: Callable[[Tensor, Tensor], Any]) -> Reading:
    """A pass over the tokens of one text; `forward` takes token_1T and length_1."""
    if not len(ids):  # white space, where only words are tokens
        raise DataError("the text is empty; give at least one token")
    token_1T, length_1 = one_row(network, ids)
    return Reading(network, partial(forward, token_1T, length_1), names(tokenizer, ids), pieces=not tokenizer.whole_words)


def arrays_reading(
    network: Network, tokenizer: Tokenizer, arrays: Sequence[NDArray[Any]], forward: Callable[..., Any] | None = None
) -> Reading:
    """A pass over the arrays of a batch with one row, the tokens first."""
    device = next(network.parameters()).device
    given = (torch.from_numpy(array).to(device) for array in arrays)
    return Reading(network, partial(forward or network, *given), names(tokenizer, arrays[0][0]), pieces=not tokenizer.whole_words)


def one_row(network: Network, ids: Ids) -> tuple[Tensor, Tensor]:
    """token_1T and length_1 on the network's device; a text that is too long is refused."""
    refuse_longer(network, len(ids))
    device = next(network.parameters()).device
    token_T = torch.from_numpy(np.asarray(ids, np.int64))
    return token_T.unsqueeze(0).to(device), torch.tensor([len(ids)], device=device)


def names(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer]) -> tuple[str, ...]:
    """The tokens as text; the id after the vocabulary's last is <mask>."""
    return tuple(MASK if id == tokenizer.vocab else tokenizer.token(int(id)) for id in ids)


@dataclass(frozen=True)
class PairInputs:
    """A source with the target that a decoder is forced to write."""

    tokens: tuple[str, ...]  # of the source
    source_1S: Tensor
    length_1: Tensor
    target_T: NDArray[np.int64]
    input_1T: Tensor  # <eos>, then the target one step late

    def run(self, network: ConditionalDecoder) -> Tensor:
        return network.teacher_forced(self.input_1T, network.encode(self.source_1S, self.length_1))
