"""Attention dynamics (S29): tokens as points that attention alone moves from layer to layer.

    v_i ← v_i + P Σ_j α_ij v_j        α_i = softmax over j of v_iᵀ Q v_j

With P = −ηQ and a symmetric Q, a layer is a step of gradient descent: v⁺ = v − η ∇_v log Σ_j exp(v_jᵀ Q v), with the v_j fixed.
Letters: L layers, n tokens, d dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError

Array = NDArray[np.float64]
PresetName = Literal["lecture", "clusters"]
_STEP = 0.1  # time step of the clusters preset
_CLOSE = 0.02  # share of the largest distance: closer points belong to the same cluster


@dataclass(frozen=True)
class System:
    """The initial points and the matrices that move them."""

    v_nd: Array
    P_dd: Array
    Q_dd: Array
    shrink: float = 1.0  # factor after each layer, to cancel the growth common to all points


@dataclass(frozen=True)
class Curves:
    """Statistics of the points at each layer, the initial points included."""

    effective_rank: tuple[float, ...]
    mean_distance: tuple[float, ...]  # over all pairs
    clusters: tuple[int, ...]


@dataclass(frozen=True)
class Path:
    v_Lnd: Array  # the initial points, then the points after each layer
    curves: Curves


def preset(name: PresetName, *, n: int | None = None, d: int | None = None, p: float | None = None, seed: int = 0) -> System:
    """lecture: P = −0.01·I, Q = GGᵀ with G_ij of variance 1/d, V_ij of variance 1/(2√d); n = 64, d = 2.

    clusters: the setting of Geshkovski et al. 2023 in which tokens converge to the vertices of a polygon: identity matrices,
    tokens uniform in [−5, 5]ᵈ, and the growth by eᵗ divided out; n = 40, d = 2.

    `p` sets P = p·I: positive values attract tokens to those they attend to, negative values repel them."""
    usual = {"lecture": 64, "clusters": 40}
    if name not in usual:
        raise ConfigError(f'unknown preset "{name}"; expected lecture or clusters')
    n, d = usual[name] if n is None else n, 2 if d is None else d
    for letter, value, least in (("n", n, 2), ("d", d, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{letter} is {value}; expected at least {least}")
    random = np.random.default_rng(seed)
    if name == "clusters":
        p = _STEP if p is None else p
        return System(random.uniform(-5, 5, (n, d)), p * np.eye(d), np.eye(d), float(np.exp(-p)))
    G_dd = random.normal(0, d**-0.5, (d, d))
    v_nd = random.normal(0, (2 * d**0.5) ** -0.5, (n, d))
    return System(v_nd, (-0.01 if p is None else p) * np.eye(d), G_dd @ G_dd.T)


def evolve(system: System, depth: int) -> Path:
    """The points before and after each of `depth` layers."""
    if depth < 1:
        raise ConfigError(f"depth is {depth}; expected at least 1")
    points = [system.v_nd]
    for _ in range(depth):
        points.append(system.shrink * layer(points[-1], system.P_dd, system.Q_dd))
        if not np.isfinite(points[-1]).all():
            raise ConfigError(
                f"the points grow without bound: they overflow after {len(points) - 1} layers. Use fewer layers or a smaller P"
            )
    v_Lnd = np.stack(points)
    return Path(v_Lnd, curves(v_Lnd))


def layer(v_nd: Array, P_dd: Array, Q_dd: Array) -> Array:
    """v_i + P Σ_j α_ij v_j."""
    score_nn = v_nd @ Q_dd @ v_nd.T
    weight_nn = np.exp(score_nn - score_nn.max(1, keepdims=True))
    alpha_nn = weight_nn / weight_nn.sum(1, keepdims=True)
    moved_nd: Array = v_nd + alpha_nn @ v_nd @ P_dd.T
    return moved_nd


def curves(v_Lnd: Any) -> Curves:
    """The statistics of any points, one set per layer; also for a trained model, whose width may differ between layers."""
    sets = [np.asarray(v_nd, np.float64) for v_nd in v_Lnd]
    distances = [_distances(v_nd) for v_nd in sets]
    return Curves(
        tuple(effective_rank(v_nd) for v_nd in sets),
        tuple(float(D_nn.sum() / max(1, len(D_nn) * (len(D_nn) - 1))) for D_nn in distances),
        tuple(_clusters(D_nn) for D_nn in distances),
    )


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


def _clusters(D_nn: Array) -> int:
    """The number of connected components of the graph of close pairs."""
    near_nn = D_nn <= _CLOSE * D_nn.max()
    label_n = np.arange(len(D_nn))
    while True:
        lowest_n = np.where(near_nn, label_n[None], len(label_n)).min(1)
        if (lowest_n == label_n).all():
            return len(set(label_n.tolist()))
        label_n = lowest_n
