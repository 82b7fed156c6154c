"""The matrices P and Q of attention dynamics: how each of them is drawn. Letters: d dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError

Array = NDArray[np.float64]
MatrixKind = Literal["identity", "random", "gram", "low-rank", "spectrum"]
KINDS: tuple[MatrixKind, ...] = get_args(MatrixKind)
EXPECTED = "identity, random, gram, low-rank:4 or spectrum:1,0.5,0.1"


@dataclass(frozen=True)
class Matrix:
    """identity   I
    random     G, with G_ij of variance 1/d
    gram       G Gᵀ, the lecture's Q: symmetric, and no eigenvalue is negative
    low-rank   U Uᵀ, the projection onto `rank` random directions
    spectrum   U diag(λ) Uᵀ, with the eigenvalues λ in random directions; those that are not given are 0

    The columns of U are orthonormal."""

    kind: MatrixKind
    rank: int = 1  # for low-rank
    spectrum: tuple[float, ...] = ()  # for spectrum

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f'unknown matrix "{self.kind}"; expected {EXPECTED}')
        if self.rank < 1:
            raise ConfigError(f"the rank of a matrix is {self.rank}; expected at least 1")
        if self.kind == "spectrum" and not self.spectrum:
            raise ConfigError("a matrix with a chosen spectrum needs its eigenvalues, such as spectrum:1,0.5,0.1")
        if not all(map(math.isfinite, self.spectrum)):
            raise ConfigError(f"the spectrum is {_written(self.spectrum)}; expected finite numbers")

    def __str__(self) -> str:
        """As `parsed` reads it."""
        match self.kind:
            case "low-rank":
                return f"low-rank:{self.rank}"
            case "spectrum":
                return f"spectrum:{_written(self.spectrum)}"
            case _:
                return self.kind

    def drawn(self, d: int, seed: int | tuple[int, ...]) -> Array:
        for what, size in (("rank", self.rank), ("number of eigenvalues", len(self.spectrum))):
            if size > d:
                raise ConfigError(f"the {what} of {self} is {size}; expected at most the dimension, {d}")
        if self.kind == "identity":
            return np.eye(d)
        G_dd = np.random.default_rng(seed).normal(0, d**-0.5, (d, d))
        match self.kind:
            case "random":
                return G_dd
            case "gram":
                return G_dd @ G_dd.T
            case "low-rank":
                return _symmetric(G_dd, (1.0,) * self.rank)
            case "spectrum":
                return _symmetric(G_dd, self.spectrum)


def parsed(text: str) -> Matrix:
    """A kind, and after a colon its rank or eigenvalues: "gram", "low-rank:4", "spectrum:1,0.5,0.1"."""
    kind, _, rest = text.strip().partition(":")
    try:
        match kind:
            case "low-rank":
                return Matrix(kind, rank=int(rest))
            case "spectrum":
                return Matrix(kind, spectrum=tuple(float(part) for part in rest.replace(",", " ").split()))
    except ValueError:
        raise ConfigError(f'unknown matrix "{text}"; expected {EXPECTED}') from None
    if rest:
        raise ConfigError(f'unknown matrix "{text}"; expected {EXPECTED}')
    return Matrix(cast(MatrixKind, kind))


def _symmetric(G_dd: Array, eigenvalues: tuple[float, ...]) -> Array:
    U_dr = np.linalg.qr(G_dd)[0][:, : len(eigenvalues)]
    A_dd: Array = (U_dr * np.array(eigenvalues)) @ U_dr.T
    return A_dd


def _written(numbers: tuple[float, ...]) -> str:
    return ",".join(f"{number:g}" for number in numbers)
