"""Images as cells: a vector for each square of a grid, for a decoder to attend to.

    patches        cell_rc = W · (pixels of patch r, c) + b                                   (Dosovitskiy et al. 2021, eq. 1)
    convolutions   x ← max over 2×2 of relu(norm(conv 3×3 (x))), again and again; the last one without the maximum

and the place of a cell, which neither says: cell_rc + row_r + column_c, both learned.

Letters: B batch, H, W height and width of the image in pixels, C channels, R rows and K columns of cells, S = R·K cells, m width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError

CHANNELS = 3  # red, green, blue
_PLACE_STD = 0.5  # of the initial rows and columns: a cell's own vector, of order 1, stays the larger part


def normalized(image_BHWC: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes 0 … 255 → numbers −2 … 2."""
    return (image_BHWC.to(dtype) / 255 - 0.5) / 0.25


class Patches(nn.Module):
    """One linear map for every patch of `side` × `side` pixels."""

    def __init__(self, side: int, width: int, size: int) -> None:
        super().__init__()
        if size % side:
            raise ConfigError(f"patches of {side} pixels do not divide an image of {size}. Set model.patch, or data.size.")
        self.side, self.width, self.rows = side, width, size // side
        self.linear = nn.Linear(side * side * CHANNELS, width)

    @property
    def repeats(self) -> tuple[tuple[nn.Module, int], ...]:
        """Each layer, with the number of times that its weights are multiplied for one cell."""
        return ((self.linear, 1),)

    def forward(self, x_BHWC: Tensor) -> Tensor:
        """cell_BRKm."""
        B, R = len(x_BHWC), self.rows
        x_BRpKpC = x_BHWC.view(B, R, self.side, R, self.side, CHANNELS)
        cell_BRKm: Tensor = self.linear(x_BRpKpC.transpose(2, 3).reshape(B, R, R, -1))
        return cell_BRKm


class Convolutions(nn.Module):
    """3×3 convolutions, each normalised over its channels; all but the last halve both sides."""

    def __init__(self, channels: tuple[int, ...], size: int) -> None:
        super().__init__()
        halvings = len(channels) - 1
        if size % 2**halvings:
            raise ConfigError(
                f"{len(channels)} convolutions halve the sides of an image {halvings} times, and {size} is no multiple of "
                f"{2**halvings}. Set model.channels, or data.size."
            )
        self.width, self.rows = channels[-1], size // 2**halvings
        inputs = (CHANNELS, *channels[:-1])
        self.convolutions = nn.ModuleList(
            nn.Conv2d(given, made, 3, padding=1, bias=False) for given, made in zip(inputs, channels, strict=True)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(made) for made in channels)

    @property
    def repeats(self) -> tuple[tuple[nn.Module, int], ...]:
        """Each layer, with the number of pixels that it writes for one cell: so often are its weights multiplied."""
        last = len(self.convolutions) - 1
        sides = [2 ** (last - n) for n in range(last + 1)]
        return tuple((layer, side * side) for layer, side in zip(self.convolutions, sides, strict=True))

    def forward(self, x_BHWC: Tensor) -> Tensor:
        """cell_BRKm. The channels stay last in memory, where convolutions are fastest and the norm needs no copy."""
        x_BCHW = x_BHWC.permute(0, 3, 1, 2)
        for n, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x_BCHW = F.relu(norm(convolution(x_BCHW).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
            if n < len(self.convolutions) - 1:
                x_BCHW = F.max_pool2d(x_BCHW, 2)
        return x_BCHW.permute(0, 2, 3, 1)


class ImageCells(nn.Module):
    """The cells of an image with their places, row by row."""

    def __init__(self, front: Patches | Convolutions) -> None:
        super().__init__()
        self.front, self.width, self.grid = front, front.width, (front.rows, front.rows)
        self.row_Rm = nn.Parameter(torch.zeros(front.rows, front.width))
        self.column_Km = nn.Parameter(torch.zeros(front.rows, front.width))

    @property
    def cells(self) -> int:
        return self.grid[0] * self.grid[1]

    def forward(self, image_BHWC: Tensor) -> Tensor:
        """cell_BSm from bytes."""
        cell_BRKm: Tensor = self.front(normalized(image_BHWC, self.row_Rm.dtype)) + self.row_Rm[:, None] + self.column_Km
        return cell_BRKm.flatten(1, 2)

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        parameter.normal_(0.0, _PLACE_STD, generator=generator)
