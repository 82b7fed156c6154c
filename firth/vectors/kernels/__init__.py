"""Training kernels: a call trains on a block of sentences, updates two matrices in place and returns the exact loss.

`kernel_for(config, …)` returns the kernel for a model and a loss. A kernel's only state is its tables. It releases the GIL
while it runs, and several threads may call it at once on the same matrices (Hogwild, Niu et al. 2011).

Letters: V vocabulary, d dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from firth.errors import ConfigError
from firth.vectors.kernels.contract import LINE, Counts, Floats, Ids, Kernel, Longs

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

__all__ = ["LINE", "Counts", "Floats", "Ids", "Kernel", "Longs", "check_matrices", "kernel_for", "output_rows", "zeros"]


def kernel_for(
    config: VectorsConfig,
    count_V: Longs,
    input_Vd: Floats,
    output_Vd: Floats,
    compiling: Callable[[], None] | None = None,
) -> Kernel:
    """The kernel for config.model and config.loss on these matrices. Calls `compiling` first if it must compile (seconds)."""
    check_matrices(config, count_V, input_Vd, output_Vd)
    if config.loss == "softmax":
        from firth.vectors.kernels.full_softmax import ExactKernel

        return ExactKernel(config, count_V, input_Vd, output_Vd, compiling)
    from firth.vectors.kernels.training_loop import TiledKernel

    return TiledKernel(config, count_V, input_Vd, output_Vd, compiling)


def zeros(rows: int, d: int) -> Floats:
    """A matrix of zeros, aligned to a cache line: if a row fills whole lines, no vector shares a line with another."""
    room = np.zeros(rows * d + LINE // 4, np.float32)
    start = -room.ctypes.data % LINE // 4
    return room[start : start + rows * d].reshape(rows, d)


def output_rows(config: VectorsConfig, V: int) -> int:
    """Rows of the output matrix: one for each word, or one for each of the V − 1 inner nodes of the Huffman tree."""
    return V - 1 if config.loss == "hs" else V


def check_matrices(config: VectorsConfig, count_V: Longs, input_Vd: Floats, output_Vd: Floats) -> None:
    V = len(count_V)
    if (count_V > 0).sum() < 2:
        raise ConfigError(
            f"only {(count_V > 0).sum()} word(s) of the vocabulary occur in the text; training needs at least two. "
            "Use more text or a smaller min_count"
        )
    shapes = {"input": (input_Vd, (V, config.dim)), "output": (output_Vd, (output_rows(config, V), config.dim))}
    for name, (matrix, shape) in shapes.items():
        # the kernel works on raw addresses: a wrong shape would corrupt memory
        if matrix.shape != shape or matrix.dtype != np.float32 or not matrix.flags.c_contiguous or not matrix.flags.writeable:
            raise ConfigError(
                f"the {name} matrix is {matrix.dtype} of shape {matrix.shape}; "
                f"expected writeable C-contiguous float32 of shape {shape}"
            )
