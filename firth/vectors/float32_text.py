"""float32 numbers as text: the shortest decimals that parse back to the same number, and parsing without double rounding.

Python and numpy parse a decimal to float64. Rounding that to float32 is a second rounding, and is wrong if the first one landed
exactly between two float32 numbers. This is rare (one number in 2²⁹), is detected from the bits, and is resolved with decimals.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

_SMALLEST, _LARGEST = 1e-12, 1e6  # in this range the required power of 10 is an exact float64
_LOW_BITS, _MIDDLE = np.int64(0x1FFF_FFFF), np.int64(0x1000_0000)  # the bits of a float64 that a float32 drops
_NORMAL = 2.0**-126


def shortest(value: NDArray[np.float32]) -> list[str]:
    """The shortest decimals that parse to the same float32: equal to `str(numpy.float32)`, but several times faster.

    Six significant digits always survive a round trip and nine always suffice, so 6, 7, 8 and 9 digits are tried in turn: round
    to an integer n with that many digits; n / 10^places is then the float64 whose own shortest form is that decimal."""
    exact = value.astype(np.float64).ravel()
    size = np.abs(exact)
    plain = (size >= _SMALLEST) & (size < _LARGEST)
    decimal = exact.copy()
    waiting = np.flatnonzero(plain)
    with np.errstate(over="ignore"):
        leading = np.floor(np.log10(size[waiting])).astype(np.int64)
        for digits in (6, 7, 8, 9):
            scale = 10.0 ** (digits - 1 - leading)
            candidate = np.rint(exact[waiting] * scale) / scale
            fits = (candidate.astype(np.float32) == exact[waiting]) & ~_in_the_middle(candidate)
            decimal[waiting[fits]] = candidate[fits]
            waiting, leading = waiting[~fits], leading[~fits]
    text = list(map(repr, decimal.tolist()))
    for n in (*np.flatnonzero(~plain & (exact != 0)), *waiting):
        text[n] = str(np.float32(exact[n]))
    return text


def to_float32(value: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """`value` rounded to float32, and the indices that must be parsed again with `nearest_float32`."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = value.astype(np.float32)
    tiny = (np.abs(value) < _NORMAL) & (value != 0)
    return rounded, np.flatnonzero(_in_the_middle(value) | tiny)


def nearest_float32(decimal: str) -> np.float32:
    """The float32 nearest to a decimal; ties go to the even one."""
    value = float(decimal)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(value)
    if not np.isfinite(near) or value == 0:
        return near
    exact = Decimal(decimal)  # not a fraction, which would write out every digit of 1e-300000
    for end in (-np.inf, np.inf):
        with np.errstate(over="ignore"):
            other = np.nextafter(near, np.float32(end))
        if not np.isfinite(other):
            continue
        middle = Decimal((float(near) + float(other)) / 2)  # a float64 holds the middle of two neighbours exactly
        nearer = exact > middle if end > 0 else exact < middle
        if nearer or (exact == middle and not int(other.view(np.uint32)) & 1):
            near = other
            break
    return np.float32(np.copysign(near, value))  # keeps the sign of zero


def _in_the_middle(value: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((np.ascontiguousarray(value).view(np.int64) & _LOW_BITS) == _MIDDLE)
