"""Attention dynamics: tokens as points that attention alone moves from layer to layer.

    v_i ← v_i + P Σ_j α_ij v_j        α_i = softmax over j of v_jᵀ Q v_i

With P = −ηQ and a symmetric Q, a layer is a step of gradient descent: v⁺ = v − η ∇_v log Σ_j exp(v_jᵀ Q v), with the v_j fixed.
Letters: L layers, n tokens, d dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError
from firth.figures.dynamics import LayerStatistics
from firth.inspection.dynamics_matrices import Matrix
from firth.progress import Progress, silent

Array = NDArray[np.float64]
PresetName = Literal["lecture", "low-rank", "clusters"]
_CLOSE = 0.02  # share of the largest distance: closer points belong to the same cluster
_EQUAL = 0.001  # share of the largest length: closer points are one cluster, however small all distances are


@dataclass(frozen=True)
class System:
    """The initial points and the matrices that move them."""

    v_nd: Array
    P_dd: Array
    Q_dd: Array
    shrink: float = 1.0  # factor after each layer, to cancel the growth common to all points


class Curves(LayerStatistics):
    def summary(self) -> str:
        """A sentence on how the curves change from the first layer to the last."""
        changes = [
            f"the effective rank of the tokens {_change(self.effective_rank)}",
            *([f"that of the attention weights {_change(self.attention_rank)}"] if self.attention_rank else []),
            f"the mean distance {_change(self.mean_distance)}",
        ]
        last = len(self.clusters) - 1
        return f"From layer 0 to layer {last}, {', '.join(changes)}, and the number of clusters {_change(self.clusters)}."


@dataclass(frozen=True)
class Path:
    v_Lnd: Array  # the initial points, then the points after each layer
    curves: Curves


@dataclass(frozen=True)
class DynamicsPreset:
    """The settings with which a preset comes."""

    n: int
    d: int
    p: float  # factor of P
    P: Matrix
    Q: Matrix
    growth: bool  # False: the growth common to all points is divided out


PRESETS: dict[PresetName, DynamicsPreset] = {
    "lecture": DynamicsPreset(64, 2, -0.01, Matrix("identity"), Matrix("gram"), True),
    "low-rank": DynamicsPreset(64, 64, 0.1, Matrix("low-rank", rank=2), Matrix("identity"), False),
    "clusters": DynamicsPreset(40, 2, 0.1, Matrix("identity"), Matrix("identity"), False),
}


def preset(
    name: PresetName,
    *,
    n: int | None = None,
    d: int | None = None,
    p: float | None = None,
    q: float = 1.0,
    P: Matrix | None = None,
    Q: Matrix | None = None,
    seed: int = 0,
) -> System:
    """lecture: P = −0.01·I, Q = GGᵀ with G_ij of variance 1/d, V_ij of variance 1/(2√d); n = 64, d = 2.

    clusters: the setting of Geshkovski et al. 2023 in which tokens converge to the vertices of a polygon: identity matrices,
    tokens uniform in [−5, 5]ᵈ, and the growth by eᵗ divided out; n = 40, d = 2.

    low-rank: the same in 64 dimensions, but P projects onto 2 of them. Only these grow, so that they alone remain when the growth
    is divided out; n = 64, d = 64.

    `P` and `Q` replace the matrices, `p` the factor of P, and `q` multiplies Q. A positive P attracts tokens to those they attend
    to, a negative one repels them."""
    if name not in PRESETS:
        raise ConfigError(f'unknown preset "{name}"; expected {", ".join(get_args(PresetName))}')
    usual = PRESETS[name]
    n, d = usual.n if n is None else n, usual.d if d is None else d
    for letter, value, least in (("n", n, 2), ("d", d, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{letter} is {value}; expected at least {least}")
    P_dd = (usual.p if p is None else p) * (P or usual.P).drawn(d, (seed, 1))
    Q_dd = q * (Q or usual.Q).drawn(d, seed)
    shrink = 1.0 if usual.growth else float(np.exp(-np.linalg.eigvals(P_dd).real.max()))
    return System(_tokens(name, n, d, seed), P_dd, Q_dd, shrink)


def _tokens(name: PresetName, n: int, d: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if name != "lecture":
        return random.uniform(-5, 5, (n, d))
    random.normal(size=(d, d))  # Q is drawn from the same seed; the tokens are the numbers after it
    return random.normal(0, (2 * d**0.5) ** -0.5, (n, d))


def evolve(system: System, depth: int, progress: Progress = silent) -> Path:
    """The points before and after each of `depth` layers."""
    if depth < 1:
        raise ConfigError(f"depth is {depth}; expected at least 1")
    points = [system.v_nd]

    def moved() -> Iterator[Array]:
        """The points of each layer, once those of the next are known to be finite."""
        for number in range(depth):
            progress(f"layer {number} of {depth}", number, depth)
            points.append(system.shrink * layer(points[-1], system.P_dd, system.Q_dd))
            if not np.isfinite(points[-1]).all():
                raise ConfigError(
                    f"the points grow without bound: they overflow after {number + 1} layers. Use fewer layers or a smaller P"
                )
            yield points[-2]
        yield points[-1]

    of = curves(moved(), system.Q_dd)
    return Path(np.stack(points), of)


def layer(v_nd: Array, P_dd: Array, Q_dd: Array) -> Array:
    """v_i + P Σ_j α_ij v_j."""
    moved_nd: Array = v_nd + attention(v_nd, Q_dd) @ v_nd @ P_dd.T
    return moved_nd


def attention(v_nd: Array, Q_dd: Array) -> Array:
    """α_ij = exp(v_jᵀ Q v_i) / Σ_l exp(v_lᵀ Q v_i)."""
    score_nn = v_nd @ Q_dd.T @ v_nd.T
    weight_nn = np.exp(score_nn - score_nn.max(1, keepdims=True))
    alpha_nn: Array = weight_nn / weight_nn.sum(1, keepdims=True)
    return alpha_nn


def curves(v_Lnd: Any, Q_dd: Array | None = None) -> Curves:
    """The statistics of any points, one set per layer; also for a trained model, whose width may differ between layers. With a
    `Q_dd`, also the rank of the attention weights that it gives these points."""
    each = [_statistics(np.asarray(v_nd, np.float64), Q_dd) for v_nd in v_Lnd]
    ranks, means, clusters, ranks_of_weights = zip(*each, strict=True)
    return Curves(ranks, means, clusters, () if Q_dd is None else ranks_of_weights)


def _statistics(v_nd: Array, Q_dd: Array | None) -> tuple[float, float, int, float]:
    D_nn = _distances(v_nd)
    mean = float(D_nn.sum() / max(1, len(D_nn) * (len(D_nn) - 1)))
    clusters = _clusters(D_nn, float(np.linalg.norm(v_nd, axis=1).max()))
    return effective_rank(v_nd), mean, clusters, 0.0 if Q_dd is None else effective_rank(attention(v_nd, Q_dd))


def effective_rank(v_nd: Array) -> float:
    """exp of the entropy of the normalised singular values (Roy & Vetterli 2007): r equal ones give r."""
    s_r = np.linalg.svd(v_nd, compute_uv=False)
    if not s_r.sum():
        return 0.0
    share_r = s_r[s_r > 0] / s_r.sum()
    return float(np.exp(-(share_r * np.log(share_r)).sum()))


def _distances(v_nd: Array) -> Array:
    gap_nnd = v_nd[:, None] - v_nd[None]
    D_nn: Array = np.sqrt((gap_nnd**2).sum(-1))
    return D_nn


def _clusters(D_nn: Array, longest: float) -> int:
    """The number of connected components of the graph of close pairs."""
    near_nn = D_nn <= max(_CLOSE * float(D_nn.max()), _EQUAL * longest)
    label_n = np.arange(len(D_nn))
    while True:
        lowest_n = np.where(near_nn, label_n[None], len(label_n)).min(1)
        if (lowest_n == label_n).all():
            return len(set(label_n.tolist()))
        label_n = lowest_n


def _change(values: Sequence[float]) -> str:
    """Compare the first and the last value as they are printed."""
    first, last = f"{values[0]:.4g}", f"{values[-1]:.4g}"
    if first == last:
        return f"{'stays' if {f'{value:.4g}' for value in values} == {first} else 'begins and ends'} at {first}"
    return f"{'rises' if values[-1] > values[0] else 'falls'} from {first} to {last}"
