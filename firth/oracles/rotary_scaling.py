"""Scaled rotary frequencies, one number at a time, float64, no torch: ω_i of a head of width D, base N, trained on n tokens and
stretched by s."""

from __future__ import annotations

import math

from firth.oracles.position import frequency


def ntk(i: int, D: int, N: float, s: float) -> float:
    """ω_i for the base N·s^(D/(D−2)): ω_0 = 1, and the slowest ω_{D/2−1} is 1/s of what it was."""
    return frequency(i, D, N * s ** (D / (D - 2)))


def dynamic(i: int, D: int, N: float, s: float, n: int, tokens: int) -> float:
    """ω_i in a text of this many tokens: the base grows with the number by which they exceed n (emozilla 2023)."""
    return frequency(i, D, N) if tokens <= n else ntk(i, D, N, 1 + s * (tokens - n) / n)


def yarn(i: int, D: int, N: float, s: float, n: int) -> float:
    """Between ω_i and ω_i / s, by how often pair i turns within n tokens (Peng et al. 2023, §3.2)."""
    first = max(math.floor(_pair(32, D, N, n)), 0)
    last = min(math.ceil(_pair(1, D, N, n)), D - 1)
    omega = frequency(i, D, N)
    if i <= first:
        return omega
    if i >= last:
        return omega / s
    slowed = (i - first) / (last - first)
    return slowed * omega / s + (1 - slowed) * omega


def llama3(i: int, D: int, N: float, s: float, n: int) -> float:
    """Between ω_i and ω_i / s, by the wavelength of pair i: at most n/4 keeps it, n or more slows it down."""
    omega = frequency(i, D, N)
    wavelength = 2 * math.pi / omega
    if wavelength < n / 4:
        return omega
    if wavelength > n:
        return omega / s
    smooth = (n / wavelength - 1) / (4 - 1)
    return (1 - smooth) * omega / s + smooth * omega


def magnitude(s: float) -> float:
    """The factor on q and on k: √(1/t) = 0.1 ln s + 1 (their eq. 22)."""
    return 0.1 * math.log(s) + 1


def _pair(turns: float, D: int, N: float, n: int) -> float:
    """i with n·N^(−2i/D) = 2π·turns."""
    return D / 2 * math.log(n / (2 * math.pi * turns)) / math.log(N)
