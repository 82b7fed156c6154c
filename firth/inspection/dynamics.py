"""Attention dynamics (S29): tokens as points that attention moves, layer after layer, with nothing else in the way.

    v_i ← v_i + P Σ_j α_ij v_j        α_i = softmax over j of v_iᵀ Q v_j

With P = −ηQ and a symmetric Q, a layer is a step down a slope: v⁺ = v − η ∇_v log Σ_j exp(v_jᵀ Q v), the v_j held fixed.
Letters: L layers, n tokens, d numbers of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError

Array = NDArray[np.float64]
PresetName = Literal["lecture", "clusters"]
_STEP = 0.1  # of the clusters' time
_CLOSE = 0.02  # of the largest distance there is: points nearer than that are of one cluster


@dataclass(frozen=True)
class System:
    """What moves, and by what."""

    v_nd: Array
    P_dd: Array
    Q_dd: Array
    shrink: float = 1.0  # what is left of every number after a layer, so that growth common to all is not seen


@dataclass(frozen=True)
class Curves:
    """What becomes of the points, a number for each layer, the beginning included."""

    effective_rank: tuple[float, ...]
    mean_distance: tuple[float, ...]  # over all pairs
    clusters: tuple[int, ...]


@dataclass(frozen=True)
class Path:
    v_Lnd: Array  # the beginning, and after each layer
    curves: Curves


def preset(name: PresetName, *, n: int | None = None, d: int | None = None, p: float | None = None, seed: int = 0) -> System:
    """lecture: P = −0.01·I, Q = GGᵀ with G_ij of variance 1/d, V_ij of variance 1/(2√d); n = 64, d = 2 to draw.

    clusters: the setting of Geshkovski et al. 2023 in which tokens go to the corners of a polygon: the identity for all matrices,
    tokens drawn evenly from [−5, 5]ᵈ, and what would grow like eᵗ divided by it; n = 40, d = 2.

    `p`, where it is given, makes P = p·I: above 0 tokens are drawn to what they look at, below 0 they are pushed away."""
    usual = {"lecture": 64, "clusters": 40}
    if name not in usual:
        raise ConfigError(f'there is no preset "{name}" of dynamics; expected lecture or clusters')
    n, d = usual[name] if n is None else n, 2 if d is None else d
    for letter, value, least in (("n", n, 2), ("d", d, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{letter} is {value}; expected {least} or more")
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
        raise ConfigError(f"depth is {depth}; expected 1 or more")
    points = [system.v_nd]
    for _ in range(depth):
        points.append(system.shrink * layer(points[-1], system.P_dd, system.Q_dd))
        if not np.isfinite(points[-1]).all():
            raise ConfigError(
                f"the points have left all bounds after {len(points) - 1} layers: this P makes them grow; ask for fewer layers, "
                "or a smaller P"
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
    """Of any points, one set for each layer: those of a trained model, too, whatever its width is from layer to layer."""
    sets = [np.asarray(v_nd, np.float64) for v_nd in v_Lnd]
    distances = [_distances(v_nd) for v_nd in sets]
    return Curves(
        tuple(effective_rank(v_nd) for v_nd in sets),
        tuple(float(D_nn.sum() / max(1, len(D_nn) * (len(D_nn) - 1))) for D_nn in distances),
        tuple(_clusters(D_nn) for D_nn in distances),
    )


def effective_rank(v_nd: Array) -> float:
    """exp of the entropy of the singular values, taken as shares of their sum (Roy & Vetterli 2007): r equal ones give r."""
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
    """Groups in which every point has another nearby, and so on: connected components of the pairs that are close."""
    near_nn = D_nn <= _CLOSE * D_nn.max()
    label_n = np.arange(len(D_nn))
    while True:
        lowest_n = np.where(near_nn, label_n[None], len(label_n)).min(1)
        if (lowest_n == label_n).all():
            return len(set(label_n.tolist()))
        label_n = lowest_n
