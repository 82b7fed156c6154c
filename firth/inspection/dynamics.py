"""Attention dynamics: tokens as points that attention alone moves from layer to layer.

    v_i ← ρ (v_i + P Σ_j α_ij v_j)        α_i = softmax over j of v_jᵀ Q v_i

ρ is 1 in every preset. Points may then grow without bound, and their scores with them; they are shown divided by their growth,
as Geshkovski et al. 2023 do (z = e^(−tV) x).

With ρ = 1, P = −ηQ and a symmetric Q, a layer is a step of gradient descent: v⁺ = v − η ∇_v log Σ_j exp(v_jᵀ Q v), the v_j fixed.
Letters: L layers, n tokens, d dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError
from firth.figures.dynamics import LayerStatistics
from firth.inspection.dynamics_matrices import Matrix
from firth.progress import Progress, silent

Array = NDArray[np.float64]
PresetName = Literal["clusters", "low-rank", "lecture"]
_CLOSE = 0.02  # share of the largest distance: closer points belong to the same cluster
_EQUAL = 0.001  # share of the largest length: closer points are one cluster, however small all distances are


@dataclass(frozen=True)
class System:
    """The initial points and what moves them."""

    v_nd: Array
    P_dd: Array
    Q_dd: Array
    rescale: float = 1.0  # ρ: factor of each layer

    def rescaled(self, factor: float) -> System:
        """The same with another `factor` ρ. Below 1 it keeps points small, and with them their scores: with e^(−0.1), clusters
        form, and meet in one point later."""
        if not factor > 0:
            raise ConfigError(f"the factor of each layer is {factor}; expected a number above 0")
        return replace(self, rescale=factor)

    @property
    def formula(self) -> str:
        """What a layer computes."""
        moved = "v + P Σ α v"
        return f"v ← {moved}" if self.rescale == 1 else f"v ← {self.rescale:.4g} · ({moved})"

    @property
    def growth(self) -> float:
        """The factor by which a layer enlarges a token that attends only to itself, at most; 1 if none is enlarged."""
        eigenvalue_d = np.linalg.eigvals(np.eye(len(self.P_dd)) + self.P_dd)
        return max(1.0, self.rescale * float(np.abs(eigenvalue_d).max()))


class Curves(LayerStatistics):
    def summary(self) -> str:
        """A sentence on how the curves change from the first layer to the last."""
        changes = [
            f"the effective rank of the tokens {_change(self.effective_rank)}",
            *([f"that of the attention weights {_change(self.attention_rank)}"] if self.attention_rank else []),
            f"the mean distance{self.per_layer} {_change(self.mean_distance)}",
        ]
        last = len(self.clusters) - 1
        return f"From layer 0 to layer {last}, {', '.join(changes)}, and the number of clusters {_change(self.clusters)}."


@dataclass(frozen=True)
class Path:
    v_Lnd: Array  # the initial points, then the points after each layer
    curves: Curves  # distances are divided by the growth of the system, so that they can be compared between layers


@dataclass(frozen=True)
class DynamicsPreset:
    """The settings with which a preset comes."""

    n: int
    d: int
    p: float  # factor of P
    P: Matrix
    Q: Matrix
    about: str  # what to see


_IDENTITY = Matrix("identity")
PRESETS: dict[PresetName, DynamicsPreset] = {
    "clusters": DynamicsPreset(40, 2, 0.1, _IDENTITY, _IDENTITY, "Tokens gather at the corners of a polygon, and stay there."),
    "low-rank": DynamicsPreset(
        n=64,
        d=64,
        p=0.1,
        P=Matrix("low-rank", rank=2),
        Q=_IDENTITY,
        about="P maps every update to two directions, which outgrow the other 62: the rank of the tokens falls to 2.",
    ),
    "lecture": DynamicsPreset(
        n=64,
        d=2,
        p=-0.01,
        P=_IDENTITY,
        Q=Matrix("gram"),
        about="The lecture plots V⁽⁰⁾ and V⁽²⁾, the tokens before and after two layers. With P = −0.01·I they hardly move, and "
        "in the plane they form no clusters. In 64 dimensions, the attention weights lose rank within 200 layers; "
        "the tokens do not.",
    ),
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
    """clusters: the system of Geshkovski et al. 2023 in which tokens converge to the vertices of a polygon: P = 0.1·I, Q = I, and
    tokens uniform in [−5, 5]ᵈ; n = 40, d = 2.

    low-rank: the same in 64 dimensions, but P projects onto 2 of them, and only these grow; n = 64, d = 64.

    lecture: P = −0.01·I, Q = GGᵀ with G_ij of variance 1/d, V_ij of variance 1/(2√d); n = 64, d = 2.

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
    return System(_tokens(name, n, d, seed), P_dd, Q_dd)


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
            points.append(system.rescale * layer(points[-1], system.P_dd, system.Q_dd))
            if not np.isfinite(points[-1]).all():
                raise ConfigError(
                    f"the points grow without bound: they overflow after {number + 1} layers. Use fewer layers or a smaller P"
                )
            yield points[-2]
        yield points[-1]

    of, growth = curves(moved(), system.Q_dd), system.growth
    distances = tuple(mean * growth**-layer for layer, mean in enumerate(of.mean_distance))
    return Path(np.stack(points), replace(of, mean_distance=distances, growth=growth))


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
