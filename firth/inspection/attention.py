"""Who looks at whom when a Transformer reads a text. Letters: H heads, Q queries, K keys; Q = K = the tokens of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.layers.attention.call import Call
from firth.layers.attention.weights import Some, statistics, weights
from firth.layers.heads import Attend
from firth.layers.tap import attention_calls
from firth.models import LanguageModel

Array = npt.NDArray[np.float32]


class Rows(NamedTuple):
    """Of each query: the entropy of its weights in nats, the largest of them, and how many tokens away it looks on average."""

    entropy_HQ: Array
    maximum_HQ: Array
    distance_HQ: Array


@dataclass(frozen=True, eq=False)
class Attention:
    """What one reading of a text left to look at: the q and k of some layers. Weights are computed when they are asked for."""

    tokens: Sequence[str]
    calls: Mapping[int, Call]

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(self.calls)

    def weights(self, layer: int, heads: Some = None, rows: Some = None) -> Array:
        """p_HQK, how much each token of `rows` takes from each token of the text."""
        return _plain(weights(self._call(layer), heads, rows))

    def rows(self, layer: int, heads: Some = None, rows: Some = None) -> Rows:
        """What the rows are like, for texts whose weights would not fit into memory."""
        found = statistics(self._call(layer), heads, rows)
        return Rows(_plain(found.entropy_BHQ), _plain(found.maximum_BHQ), _plain(found.distance_BHQ))

    def _call(self, layer: int) -> Call:
        if layer not in self.calls:
            there = ", ".join(map(str, self.calls))
            raise ConfigError(f"layer {layer} was not looked at, only {there}; name it in layers= when the text is read")
        return self.calls[layer]


def attention(model: LanguageModel, ids: npt.NDArray[np.int64], tokens: Sequence[str], layers: Sequence[int] | None) -> Attention:
    """Read the tokens once, on the kernel that the model always uses, and note what the given layers, or all, were asked."""
    if not any(isinstance(module, Attend) for module in model.modules()):
        raise ConfigError(f'{type(model).__name__} has no attention to look at; model.kind = "transformer" has')
    if not len(ids):
        raise DataError("the text is empty; give at least one token to look at")
    token_1T = torch.from_numpy(ids).unsqueeze(0).to(next(model.parameters()).device)
    with torch.no_grad(), attention_calls(model, layers) as calls:
        model.hidden(token_1T)
    return Attention(tuple(tokens), dict(sorted(calls.items())))


def _plain(x_1Hn: Tensor) -> Array:
    found: Array = x_1Hn[0].float().cpu().numpy()
    return found
