"""Training kernels: a block of sentences in, two matrices changed in place, the true loss out.

`kernel_for(config, …)` gives the kernel of a model and loss. A kernel holds no state but its tables, lets go of Python's lock
while it works, and may be called from several threads at once on the same matrices (Hogwild, Niu et al. 2011).

Letters: V vocabulary, d dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.int64]
LINE = 64  # bytes of a cache line


class Counts(NamedTuple):
    loss: float  # Σ of −log likelihood over the terms, negatives included
    terms: int  # pairs (skip-gram) or words in the middle of a window (CBOW)
    words: int  # of the corpus, before subsampling

    @property
    def mean(self) -> float:
        return self.loss / self.terms if self.terms else float("nan")


class Kernel(Protocol):
    def __call__(self, ids: Ids, ends: Longs, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        """Train on sentences first … last − 1, where sentence s is ids[ends[s − 1] : ends[s]]; the rate falls linearly."""
        ...


def kernel_for(
    config: VectorsConfig,
    count_V: Longs,
    input_Vd: Floats,
    output_Vd: Floats,
    compiling: Callable[[], None] | None = None,
) -> Kernel:
    """The kernel of config.model and config.loss on these matrices; calls `compiling` before a compilation of seconds."""
    check_matrices(config, count_V, input_Vd, output_Vd)
    if config.loss == "softmax":
        from firth.vectors.kernels.exact import ExactKernel

        return ExactKernel(config, count_V, input_Vd, output_Vd, compiling)
    from firth.vectors.kernels.loops import TiledKernel

    return TiledKernel(config, count_V, input_Vd, output_Vd, compiling)


def zeros(rows: int, d: int) -> Floats:
    """A matrix of zeros that begins where a cache line does: if its rows are whole lines, no vector lies across two of them."""
    room = np.zeros(rows * d + LINE // 4, np.float32)
    start = -room.ctypes.data % LINE // 4
    return room[start : start + rows * d].reshape(rows, d)


def output_rows(config: VectorsConfig, V: int) -> int:
    """Rows of the output matrix: a vector for each word, or for each of the V − 1 inner nodes of the tree."""
    return V - 1 if config.loss == "hs" else V


def check_matrices(config: VectorsConfig, count_V: Longs, input_Vd: Floats, output_Vd: Floats) -> None:
    V = len(count_V)
    if (count_V > 0).sum() < 2:
        raise ConfigError(
            f"{(count_V > 0).sum()} word(s) of the vocabulary occur in the text; expected two or more: "
            "give more text, or a smaller min_count"
        )
    shapes = {"input": (input_Vd, (V, config.dim)), "output": (output_Vd, (output_rows(config, V), config.dim))}
    for name, (matrix, shape) in shapes.items():
        # the kernel works on addresses: a wrong shape would write into somebody else's memory
        if matrix.shape != shape or matrix.dtype != np.float32 or not matrix.flags.c_contiguous or not matrix.flags.writeable:
            raise ConfigError(
                f"the {name} matrix is {matrix.dtype} of shape {matrix.shape}; "
                f"expected writeable float32 of shape {shape}, row by row"
            )
