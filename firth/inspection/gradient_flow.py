"""Reach of gradients through time: ‖∂loss_T / ∂h_t‖ against the distance T − t. Letters: L layers, T time, B batch, d width.

loss_T = −log p(x_T | x_<T) is the loss of the last token alone, so a gradient at t has travelled the whole distance. h_t is
everything a recurrent model knows after token t: h of every layer, and c of an LSTM. A Transformer has no such bottleneck; its
h_t is the input of the first block at t. An RNN multiplies by Uᵀ diag(1 − h²) at every step back, so the product vanishes or
explodes with distance (Bengio et al. 1994; Pascanu et al. 2013); an LSTM adds, a Transformer attends directly.

Everything is computed in float64, so a vanishing gradient is visible as one and does not underflow.
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
from firth.figures.figure import Drawn, Figure
from firth.figures.gradient_flow import flow_by_distance
from firth.layers.attention.config import CausalConfig
from firth.layers.recurrent import CELLS, Cell, CellKind
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
Kind = CellKind | Literal["transformer"]
MOST_TOKENS = 4096  # every step is kept in memory for the backward pass
TRANSFORMER: Kind = "transformer"
_SHOWN = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # distances in the table


def model_kinds() -> tuple[Kind, ...]:
    return (*CELLS.kinds, TRANSFORMER)


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Drawn):
    """Norms by distance: index 0 is the position that predicts the last token, index n is n tokens earlier."""

    tokens: tuple[str, ...]  # the input, by distance too
    state: Array  # ‖∂loss_T/∂h_t‖
    embedding: Array  # ‖∂loss_T/∂e_t‖, e_t the embedded token
    gradient: float  # ‖∂loss_T/∂θ‖ over all parameters: the norm that clipping limits
    clip: float | None = None  # the limit it was clipped to

    def clipped(self, at: float) -> Flow:
        """g ← g · min(1, at / ‖g‖) (Pascanu et al. 2013): a large gradient is scaled down as a whole. The slope of the curve
        stays the same: clipping does not restore a vanished gradient."""
        if at <= 0:
            raise ConfigError(f"cannot clip the gradient at {at}; expected a norm above 0")
        share = min(1.0, at / self.gradient) if self.gradient else 1.0
        return replace(self, state=share * self.state, embedding=share * self.embedding, gradient=share * self.gradient, clip=at)

    def figure(self) -> Figure:
        curves = {"state h": self.state, "embedded token e": self.embedding}
        at = "" if self.clip is None else f", clipped at {self.clip:g}"
        return flow_by_distance(curves, f"gradient of the last token's loss{at}", self.tokens)

    def plot(self) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure().plot

    def text(self, width: int = 80) -> str:
        """Norms at distances 0, 1, 2, 4, 8 … for a terminal."""
        places = sorted({0, *(1 << n for n in range(len(self.state).bit_length()) if 1 << n < len(self.state))})
        lines = [f"{'distance':>8}{'state h':>14}{'embedding e':>14}  token"]
        lines += [f"{n:>8}{self.state[n]:>14.3e}{self.embedding[n]:>14.3e}  {self.tokens[n]!r}"[:width] for n in places]
        return "\n".join([*lines, f"norm over all parameters: {self.gradient:.3e}"])


class Flows(dict[str, Flow]):
    """The flow in each kind of model, by its name. `.figure()` draws it, `.text()` prints it."""

    def figure(self) -> Figure:
        return flows_figure(self)

    def text(self) -> str:
        """Norms at some distances, as shares of that at distance 0."""
        lines = [f"{'distance':>8}" + "".join(f"{name:>13}" for name in self)]
        for n in (n for n in _SHOWN if n < max(len(one.state) for one in self.values())):
            lines.append(f"{n:>8}" + "".join(f"{one.state[n] / (one.state[0] or 1):>13.2e}" for one in self.values()))
        return "\n".join([*lines, f"{'‖∂θ‖':>8}" + "".join(f"{one.gradient:>13.2e}" for one in self.values())])

    def __repr__(self) -> str:
        return f"<Flows: {', '.join(self)}; .figure() draws them, .text() prints them>"

    def _repr_html_(self) -> str:
        return self.figure()._repr_html_()


def flow(network: LanguageModel, ids: npt.NDArray[np.int64], tokens: Sequence[str]) -> Flow:
    """The gradients of the last token's loss, predicted from all tokens before it."""
    if len(ids) < 2:
        raise DataError(f"the text has {len(ids)} token and no context to predict it from; give a longer text")
    if len(ids) > MOST_TOKENS:
        raise DataError(f"the text has {len(ids):,} tokens; the gradient view takes at most {MOST_TOKENS:,}. Give the end of it.")
    double = copy.deepcopy(network).double().eval()
    token_1T = torch.from_numpy(ids).unsqueeze(0).to(next(double.parameters()).device)
    state, embedding, gradient = _norms(double, token_1T)
    return Flow(tuple(tokens[-2::-1]), state[0, ::-1], embedding[0, ::-1], gradient)


def compare_flow(
    kinds: Sequence[Kind] | None = None,
    *,
    length: int = 100,
    size: int = 40_000,
    vocab: int = 32,
    texts: int = 8,
    gain: float = 1.0,
    clip: float | None = None,
    seed: int = 0,
) -> Flows:
    """The mean norms over random texts, for untrained models of about `size` parameters each. `gain` multiplies every U, the
    matrices from hidden state to hidden state: above 1 an RNN's gradient may explode. `clip` limits the gradient's norm."""
    generator = torch.Generator().manual_seed(seed)
    token_BT = torch.randint(vocab, (texts, length + 1), generator=generator)
    flows = Flows()
    for kind in kinds or model_kinds():
        network = fresh(kind, size, vocab, length, gain, seed)
        state, embedding, gradient = _norms(network.double().eval(), token_BT)
        one = Flow(("",) * length, state.mean(0)[::-1], embedding.mean(0)[::-1], gradient)
        flows[str(kind)] = one if clip is None else one.clipped(clip)
    return flows


def flows_figure(flows: Mapping[str, Flow]) -> Figure:
    """Several models in one figure, each relative to its own norm at distance 0."""
    curves = {name: one.state / (one.state[0] or 1.0) for name, one in flows.items()}
    return flow_by_distance(curves, "gradient of the last token's loss, as a share of that at distance 0")


def fresh(kind: Kind, size: int, vocab: int, context: int, gain: float = 1.0, seed: int = 0) -> LanguageModel:
    """A model with initial weights, whose width gives it about `size` parameters."""
    widths = range(4, 4097, 4)  # so that a Transformer's two heads have an even width

    def size_of(width: int) -> int:
        return parameters(_config(kind, width, context), vocab)

    place = bisect_left(widths, size, hi=len(widths) - 1, key=size_of)
    width = min(widths[max(0, place - 1) : place + 1], key=lambda width: abs(size_of(width) - size))
    network = language_model(_config(kind, width, context), vocab)
    initialise(network, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, Cell):
                module.weights().hidden_gd.mul_(gain)
    return network


def _config(kind: Kind, width: int, context: int) -> LanguageConfig:
    if kind == "transformer":
        return TransformerConfig(kind="transformer", width=width, depth=2, attention=CausalConfig(heads=2), context=context)
    return RecurrentConfig(kind=kind, width=width)


def _norms(network: LanguageModel, token_BT: Tensor) -> tuple[Array, Array, float]:
    """The norm of each row's gradient at h_t and at e_t, as B,T−1; and over all parameters, the mean of the rows."""
    read_BT, last_B = token_BT[:, :-1], token_BT[:, -1]
    weights = [parameter.requires_grad_() for parameter in network.parameters()]
    with torch.enable_grad(), outputs([network.embedding]) as embedded:
        match network:
            case RecurrentLM():
                x_Bd, inner = _steps(network, read_BT)
            case TransformerLM():
                x_Bd, inner = _at_once(network, read_BT)
            case _:
                raise ConfigError(f"{type(network).__name__} has no states; use a recurrent model or a Transformer")
        loss_B = F.cross_entropy(network.readout(x_Bd), last_B, reduction="none")
        # Rows are independent, so the gradient of the sum holds the gradient of each.
        gradients = torch.autograd.grad(loss_B.sum(), [*inner, *embedded], retain_graph=True, materialize_grads=True)
        total = [_total(torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)) for loss in loss_B]
    state_BTn, embedded_BTe = (torch.cat(part, dim=1) for part in (gradients[: len(inner)], gradients[len(inner) :]))
    return _norm(state_BTn), _norm(embedded_BTe), float(np.mean(total))


def _steps(network: RecurrentLM, token_BT: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The input of the output layer after the last token, and the whole state after each token as one tensor B,1,n, through
    which every path back leads."""
    B, state, states = len(token_BT), network.start(len(token_BT)), []
    for token_B in token_BT.unbind(1):
        _, after = network.hidden(token_B.unsqueeze(1), state, kernel="cells")  # cuDNN's has no gradient outside training
        parts_BLd = [part_LBd.transpose(0, 1) for part_LBd in after.parts]
        states.append(torch.cat(parts_BLd, dim=-1).view(B, 1, -1))
        h_LBd, *c_LBd = states[-1].view(B, len(after.h_LBd), -1).transpose(0, 1).chunk(len(parts_BLd), dim=-1)
        state = RecurrentState(h_LBd, *c_LBd)
    x_Bd = state.h_LBd[-1]
    return x_Bd if network.projection is None else network.projection(x_Bd), states


def _at_once(network: TransformerLM, token_BT: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The input of the output layer after the last token, and the input of the first block."""
    x_BTd = network.embed_positions(network.embedding(token_BT), 0)
    return network.run_blocks(x_BTd, network.allowed())[0][:, -1], [x_BTd]


def _total(gradients: Sequence[Tensor | None]) -> float:
    return float(torch.stack([gradient.norm() for gradient in gradients if gradient is not None]).norm())


def _norm(x_BTn: Tensor) -> Array:
    norm_BT: Array = x_BTn.norm(dim=-1).cpu().numpy()
    return norm_BT
