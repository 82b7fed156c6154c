"""The attention of a caption to its image: for each word, a weight for each cell of the image.

Letters: T words, R rows and K columns of cells, S = R·K cells, H, W, C height, width, channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from firth.figures.figure import Drawn, Figure
from firth.figures.image_attention import overlay_figure, overlay_text
from firth.inspection.alignment import Array, Ints, attention_weights
from firth.inspection.merge_pieces import merge, words_of
from firth.models import ConditionalDecoder


@dataclass(frozen=True, eq=False, repr=False)
class ImageAttention(Drawn):
    """`weights` are α_TRK: for each word of the caption, <eos> last, the attention weights of the image's cells from which the
    word was predicted; those of a word sum to 1. The first matrix is the recommended one; for a Transformer there is one for
    each layer (the mean over its heads) and one for each head. `image` is what the network sees: bytes, height × width × 3."""

    words: tuple[str, ...]
    weights: Mapping[str, Array]
    image: npt.NDArray[np.uint8]

    @property
    def best(self) -> Array:
        """α_TRK, the first of the weights."""
        return next(iter(self.weights.values()))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self.best.shape[1], self.best.shape[2]

    def figure(self, name: str | None = None) -> Figure:
        """The image once for each word, brightest where the word attends; `name` is a key of `weights`, by default the first."""
        alpha_TRK = self.best if name is None else self.weights[name]
        return overlay_figure(self.image, self.words, alpha_TRK)

    def text(self, width: int = 80) -> str:
        return overlay_text(self.words, self.best, width)


def image_attention(
    network: ConditionalDecoder, image_HWC: npt.NDArray[np.uint8], target_T: Ints, pieces: Sequence[str], *, merged: bool
) -> ImageAttention:
    """`target_T` ends with <eos>. `merged`: merge subwords into words, see merge_pieces.py."""
    device = next(network.parameters()).device
    image_1HWC = torch.from_numpy(np.array(image_HWC)).unsqueeze(0).to(device)
    words, rows = words_of(pieces, merged=merged)
    alphas = attention_weights(network, lambda: network.encode(image_1HWC), target_T)
    grid = network.encoder.grid
    cells = range(grid[0] * grid[1])
    weights = {name: merge(alpha_TS, rows, cells).reshape(len(words), *grid) for name, alpha_TS in alphas.items()}
    return ImageAttention(tuple(words), weights, image_HWC)
