"""Sinusoidal positions beside counting in binary: both write a position as digits that change ever more slowly.

    p_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, …)    ω_i = N^(−2i/d)       wave i repeats after 2π/ω_i positions
    t   = Σ_j b_j 2^j                                                   bit j repeats after 2^(j+1) positions

Letters: T positions, d dimension, n bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from firth.errors import ConfigError
from firth.figures.figure import Figure
from firth.figures.masks_and_positions import sinusoid_beside_counting
from firth.layers.position.sinusoidal import sinusoid

Array = npt.NDArray[np.float64]
MOST = 1024  # positions, and dimensions


@dataclass(frozen=True, eq=False)
class PositionTable:
    """Every position as a sinusoid and as a binary number."""

    base: float
    wave_Td: Array
    bit_Tn: npt.NDArray[np.int64]  # lowest bit first

    @property
    def wave_periods(self) -> list[float]:
        """In positions, one for each sine and its cosine."""
        d = self.wave_Td.shape[1]
        return [2 * math.pi * self.base ** (2 * i / d) for i in range(d // 2)]

    @property
    def bit_periods(self) -> list[int]:
        """In positions, lowest bit first."""
        return [2 ** (j + 1) for j in range(self.bit_Tn.shape[1])]

    def binary(self, t: int) -> str:
        """As numbers are written, highest bit first: with three bits, 3 is 011. (Some lecture notes have 101, which is 5.)"""
        return "".join(str(bit) for bit in self.bit_Tn[t, ::-1].tolist())

    def figure(self) -> Figure:
        return sinusoid_beside_counting(self.wave_Td.tolist(), self.bit_Tn.tolist())

    def plot(self) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure().plot

    def text(self, width: int = 80) -> str:
        """One row per position, with as many dimensions as fit into the width."""
        (T, d), n = self.wave_Td.shape, self.bit_Tn.shape[1]
        left = max(6, n) + 6
        shown = min(d, max(2, (width - left) // 7 // 2 * 2))
        names = "".join(f"{f'{wave} {i}':>7}" for i in range(shown // 2) for wave in ("sin", "cos"))
        lines = [f"{'t':>4}  {'binary':>{left - 6}}{names}"]
        for t in range(T):
            lines.append(f"{t:>4}  {self.binary(t):>{left - 6}}" + "".join(f"{value:z7.2f}" for value in self.wave_Td[t, :shown]))
        periods = " ".join(f"{period:.4g}" for period in self.wave_periods[: shown // 2])
        lines += [
            "",
            f"periods of the bits, lowest first: {' '.join(map(str, self.bit_periods))} positions",
            f"periods of the waves: {periods} positions",
        ]
        if shown < d:
            lines.append(f"{shown} of {d} dimensions are shown; --json prints all, and --save draws them.")
        return "\n".join(lines)

    def facts(self) -> dict[str, object]:
        return {
            "base": self.base,
            "binary": [self.binary(t) for t in range(len(self.bit_Tn))],
            "sinusoid": self.wave_Td.tolist(),
            "bit_periods": self.bit_periods,
            "wave_periods": self.wave_periods,
        }


def sinusoid_and_binary(length: int = 16, width: int = 8, base: float = 10_000.0) -> PositionTable:
    """The positions 0 … length − 1."""
    for name, value in (("length", length), ("width", width)):
        if not 2 <= value <= MOST:
            raise ConfigError(f"{name} is {value}; expected 2 to {MOST:,}")
    if width % 2:
        raise ConfigError(f"width is {width}; each sine has a cosine, so it must be even")
    if not (math.isfinite(base) and base > 1):
        raise ConfigError(f"base is {base:g}; expected a finite number above 1, such as 10000")
    position_T = torch.arange(length)
    bit_Tn = np.arange(length)[:, None] >> np.arange((length - 1).bit_length()) & 1
    return PositionTable(base, sinusoid(position_T, width, base).numpy(), bit_Tn)
