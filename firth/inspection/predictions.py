"""A model's predictions at each position of a text: the most probable next tokens, and the probability of the actual one.

    p_t = softmax(W h_t + b)        surprisal_t = −log₂ p_t(x_{t+1})        entropy_t = −Σ_v p_t(v) ln p_t(v)

Letters: T time, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.figures.figure import Drawn, Figure
from firth.figures.predictions import predictions_text, surprisal_strip
from firth.models import ConditionalDecoder, LanguageModel
from firth.progress import Progress, silent

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Likely = tuple[tuple[str, float], ...]  # tokens and their probabilities, the most probable first

MOST_TOKENS = 8192  # in one figure
_PIECE = 1024  # tokens processed at once by a recurrent model


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Drawn):
    """For each token of the text: its log p in nats, its rank (1 is the most probable), and the entropy of the predicted
    distribution in nats."""

    tokens: tuple[str, ...]
    log_probability: Array
    rank: Ints
    entropy: Array
    top: tuple[Likely, ...]  # the most probable tokens at each position
    next: Likely = ()  # the most probable tokens after the last position

    @property
    def probability(self) -> Array:
        return np.exp(self.log_probability)

    @property
    def surprisal(self) -> Array:
        """−log₂ p, in bits."""
        return -self.log_probability / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp(mean of −log p); nan if nothing was predicted."""
        return math.exp(-float(self.log_probability.mean())) if len(self.tokens) else math.nan

    def figure(self) -> Figure:
        """The text as a strip of tokens; darker means more surprising."""
        if len(self.tokens) > MOST_TOKENS:
            raise DataError(
                f"{len(self.tokens):,} tokens are too many for one figure (at most {MOST_TOKENS:,}). Use a shorter text, or read "
                "surprisal, rank and top"
            )
        return surprisal_strip(self.tokens, self.surprisal, self.probability, self.rank, self.entropy, self.top)

    def plot(self) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure().plot

    def text(self, width: int = 80) -> str:
        """One line per token."""
        return predictions_text(self.tokens, self.surprisal, self.probability, self.rank, self.top, self.next, width)


def predictions(log_p: Iterable[Tensor], came: Ints, name: Callable[[int], str], top: int) -> Predictions:
    """From log p_TV in pieces, and the actual token after each position. If there is one position more than tokens, its
    distribution becomes `next`."""
    if top < 1:
        raise ConfigError(f"top is {top}; expected at least 1")
    log_p_T, rank_T, entropy_T = np.empty(len(came)), np.empty(len(came), np.int64), np.empty(len(came))
    likely: list[Likely] = []
    at = 0
    for log_p_TV in log_p:
        likely += _likely(log_p_TV, name, top)
        some = log_p_TV[: len(came) - at]
        token_T1 = torch.from_numpy(came[at : at + len(some)]).to(some.device).unsqueeze(1)
        own_T1, place = some.gather(1, token_T1), slice(at, at + len(some))
        log_p_T[place] = own_T1[:, 0].cpu().numpy()
        rank_T[place] = 1 + (some > own_T1).sum(1).cpu().numpy()
        entropy_T[place] = torch.special.entr(some.exp()).sum(1).cpu().numpy()
        at += len(log_p_TV)
    tokens = tuple(name(int(id)) for id in came)
    return Predictions(tokens, log_p_T, rank_T, entropy_T, tuple(likely[: len(came)]), likely[-1] if at > len(came) else ())


@torch.inference_mode()
def of_text(network: LanguageModel, ids: Ints) -> Iterator[Tensor]:
    """log p_TV after each token, in pieces. A recurrent model carries its state through the whole text. A Transformer uses
    windows of `context` tokens that overlap by half, so that each token after the first window has at least half a context."""
    token_T = torch.from_numpy(ids).to(next(network.parameters()).device)
    state, at = network.start(1), 0
    while at < len(token_T):
        if network.context is None:
            begin, end = at, min(at + _PIECE, len(token_T))
        else:
            begin = max(0, at - network.context // 2)
            end = min(begin + network.context, len(token_T))
            state = network.start(1)
        logits_1TV, state = network.step(token_T[begin:end].unsqueeze(0), state)
        yield torch.log_softmax(logits_1TV[0, at - begin :].double(), -1)
        at = end


@torch.inference_mode()
def of_pair(network: ConditionalDecoder, *inputs: Tensor) -> Iterator[Tensor]:
    """log p_TV at each position of a target, given the earlier ones; `inputs` are the source or image and the decoder's input."""
    yield torch.log_softmax(network(*inputs)[0].double(), -1)


def _likely(log_p_TV: Tensor, name: Callable[[int], str], top: int) -> list[Likely]:
    values_Tk, ids_Tk = log_p_TV.topk(min(top, log_p_TV.shape[1]), dim=1)
    rows = zip(ids_Tk.tolist(), values_Tk.exp().tolist(), strict=True)
    return [tuple((name(id), p) for id, p in zip(ids, chances, strict=True)) for ids, chances in rows]


def read_log_probabilities(network: LanguageModel, ids: Ints, progress: Progress = silent) -> list[float]:
    """log p(x_t | x_<t) for t = 1 … T−1, of a text of any length."""
    result: list[float] = []
    for log_p_TV in of_text(network, ids[:-1]):
        came_T = torch.from_numpy(ids[len(result) + 1 :][: len(log_p_TV)]).to(log_p_TV.device)
        result += log_p_TV.gather(1, came_T.unsqueeze(1)).squeeze(1).tolist()
        progress("scoring", len(result), len(ids) - 1)
    return result
