"""How far a gradient reaches: ‖∂loss_T / ∂h_t‖ against the distance T − t. Letters: L levels, T time, B batch, d width.

loss_T = −log p(x_T | x_<T) is that of the last token alone, so that what arrives at t has come all the way. h_t is all that a
recurrent model knows after token t: every level's h, and of an LSTM its c beside it. A Transformer has no such bottleneck; there
h_t is what enters its first block at t. An RNN multiplies by Uᵀ diag(1 − h²) at every step back, so that the product vanishes or
explodes with distance (Bengio et al. 1994; Pascanu et al. 2013); an LSTM adds, a Transformer looks directly.

All is computed in float64, so that what has vanished is seen to vanish, not cut off.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.figures.figure import Figure
from firth.figures.gradient_flow import flow_by_distance
from firth.layers.state import RecurrentState
from firth.layers.tap import outputs
from firth.models import (
    LanguageConfig,
    LanguageModel,
    RecurrentConfig,
    RecurrentLM,
    TransformerConfig,
    TransformerLM,
    language_model,
)
from firth.models.initialise import initialise
from firth.models.sizes import parameters

Array = npt.NDArray[np.float64]
Kind = Literal["rnn", "lstm", "gru", "transformer"]
MOST_TOKENS = 4096  # every step back is kept in memory
KINDS: tuple[Kind, ...] = ("rnn", "lstm", "gru", "transformer")


@dataclass(frozen=True, eq=False)
class Flow:
    """Norms by distance: number 0 is of the position that the last token is predicted from, number n of n tokens before it."""

    tokens: tuple[str, ...]  # that were read, by distance too
    state: Array  # ‖∂loss_T/∂h_t‖
    embedding: Array  # ‖∂loss_T/∂e_t‖, of the embedded token
    gradient: float  # ‖∂loss_T/∂θ‖, of all parameters together: what clipping looks at
    clip: float | None = None  # the norm that it was clipped at

    def clipped(self, at: float) -> Flow:
        """g ← g · min(1, at / ‖g‖) (Pascanu et al. 2013): the whole curve lower, where it was too high; its slope stays, so that
        what had vanished does not come back."""
        if at <= 0:
            raise ConfigError(f"a gradient is to be clipped at {at}; expected a norm above 0")
        share = min(1.0, at / self.gradient) if self.gradient else 1.0
        return replace(self, state=share * self.state, embedding=share * self.embedding, gradient=share * self.gradient, clip=at)

    def figure(self) -> Figure:
        curves = {"state h": self.state, "embedded token e": self.embedding}
        at = "" if self.clip is None else f", clipped at {self.clip:g}"
        return flow_by_distance(curves, f"gradient of the last token's loss{at}", self.tokens)

    def plot(self) -> Any:
        """The Plotly figure, which a notebook shows."""
        return self.figure().plot

    def text(self, width: int = 80) -> str:
        """Norms at distances 0, 1, 2, 4, 8 … for a terminal."""
        places = sorted({0, *(1 << n for n in range(len(self.state).bit_length()) if 1 << n < len(self.state))})
        lines = [f"{'distance':>8}{'state h':>14}{'embedding e':>14}  token"]
        lines += [f"{n:>8}{self.state[n]:>14.3e}{self.embedding[n]:>14.3e}  {self.tokens[n]!r}"[:width] for n in places]
        return "\n".join([*lines, f"norm over all parameters: {self.gradient:.3e}"])


def flow(network: LanguageModel, ids: npt.NDArray[np.int64], tokens: Sequence[str]) -> Flow:
    """Of the last of `ids`, predicted from those before it."""
    if len(ids) < 2:
        raise DataError(f"{len(ids)} token to predict and none before it; give a longer text")
    if len(ids) > MOST_TOKENS:
        raise DataError(f"the text has {len(ids):,} tokens; a gradient is followed over at most {MOST_TOKENS:,}; give its end")
    double = copy.deepcopy(network).double().eval()
    token_1T = torch.from_numpy(ids).unsqueeze(0).to(next(double.parameters()).device)
    state, embedding, gradient = _norms(double, token_1T)
    return Flow(tuple(tokens[-2::-1]), state[0, ::-1], embedding[0, ::-1], gradient)


def compare_flow(
    kinds: Sequence[Kind] = KINDS,
    *,
    length: int = 100,
    size: int = 40_000,
    vocab: int = 32,
    texts: int = 8,
    gain: float = 1.0,
    seed: int = 0,
) -> dict[str, Flow]:
    """Fresh models of about `size` parameters each read random texts: the mean of the norms. `gain` multiplies every U, what
    leads from state to state: above 1 an RNN's gradient may explode."""
    generator = torch.Generator().manual_seed(seed)
    token_BT = torch.randint(vocab, (texts, length + 1), generator=generator)
    found = {}
    for kind in kinds:
        network = fresh(kind, size, vocab, length, gain, seed)
        state, embedding, gradient = _norms(network.double().eval(), token_BT)
        found[str(kind)] = Flow(("",) * length, state.mean(0)[::-1], embedding.mean(0)[::-1], gradient)
    return found


def flows_figure(flows: Mapping[str, Flow]) -> Figure:
    """Several models in one picture, each as a share of its own norm at distance 0."""
    curves = {name: one.state / (one.state[0] or 1.0) for name, one in flows.items()}
    return flow_by_distance(curves, "gradient of the last token's loss, as a share of that at distance 0")


def fresh(kind: Kind, size: int, vocab: int, context: int, gain: float = 1.0, seed: int = 0) -> LanguageModel:
    """A model as training would begin with, as wide as `size` parameters allow."""
    widths = range(4, 4097, 4)  # two heads of an even width

    def size_of(width: int) -> int:
        return parameters(_config(kind, width, context), vocab)

    place = bisect_left(widths, size, hi=len(widths) - 1, key=size_of)
    width = min(widths[max(0, place - 1) : place + 1], key=lambda width: abs(size_of(width) - size))
    network = language_model(_config(kind, width, context), vocab)
    initialise(network, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "weight_hh" in name:
                parameter.mul_(gain)
    return network


def _config(kind: Kind, width: int, context: int) -> LanguageConfig:
    if kind == "transformer":
        return TransformerConfig(kind="transformer", width=width, depth=2, heads=2, context=context)
    return RecurrentConfig(kind=kind, width=width)


def _norms(network: LanguageModel, token_BT: Tensor) -> tuple[Array, Array, float]:
    """Of the gradient of each row's loss at h_t and e_t, B,T−1; and at all parameters together, the mean over the rows."""
    read_BT, last_B = token_BT[:, :-1], token_BT[:, -1]
    weights = [parameter.requires_grad_() for parameter in network.parameters()]
    with torch.enable_grad(), outputs([network.embedding]) as embedded:
        match network:
            case RecurrentLM():
                x_Bd, inner = _steps(network, read_BT)
            case TransformerLM():
                x_Bd, inner = _at_once(network, read_BT)
            case _:
                raise ConfigError(f"{type(network).__name__} has no states to follow; use a recurrent model or a Transformer")
        loss_B = F.cross_entropy(network.readout(x_Bd), last_B, reduction="none")
        # A row's loss depends on no other row, so the gradient of the sum is that of each.
        found = torch.autograd.grad(loss_B.sum(), [*inner, *embedded], retain_graph=True, materialize_grads=True)
        total = [_total(torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)) for loss in loss_B]
    state_BTn, embedded_BTe = (torch.cat(part, dim=1) for part in (found[: len(inner)], found[len(inner) :]))
    return _norm(state_BTn), _norm(embedded_BTe), float(np.mean(total))


def _steps(network: RecurrentLM, token_BT: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What the output layer reads after the last token, and after each token all that the model knows: B,1,n, one tensor that
    every path back leads through."""
    B, state, found = len(token_BT), network.start(len(token_BT)), []
    for token_B in token_BT.unbind(1):
        _, after = network.hidden(token_B.unsqueeze(1), state, kernel="cells")  # cuDNN's has no gradient outside training
        parts_BLd = [part.transpose(0, 1) for part in (after.h_LBd, after.c_LBd) if part is not None]
        found.append(torch.cat(parts_BLd, dim=-1).view(B, 1, -1))
        h_LBd, *c_LBd = found[-1].view(B, len(after.h_LBd), -1).transpose(0, 1).chunk(len(parts_BLd), dim=-1)
        state = RecurrentState(h_LBd, *c_LBd)
    x_Bd = state.h_LBd[-1]
    return x_Bd if network.projection is None else network.projection(x_Bd), found


def _at_once(network: TransformerLM, token_BT: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What the output layer reads after the last token, and what enters the first block."""
    x_BTd = network.embed_positions(network.embedding(token_BT), 0)
    return network.run_blocks(x_BTd, network.allowed())[0][:, -1], [x_BTd]


def _total(gradients: Sequence[Tensor | None]) -> float:
    return float(torch.stack([gradient.norm() for gradient in gradients if gradient is not None]).norm())


def _norm(x_BTn: Tensor) -> Array:
    found: Array = x_BTn.norm(dim=-1).cpu().numpy()
    return found
