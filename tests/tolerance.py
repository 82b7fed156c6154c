"""Tolerances of numerical results. They are derived, never tuned."""

from __future__ import annotations

import math

import torch
from torch import Tensor

EXACT = 1e-12  # float64: some hundreds of roundings of 1e-16, and no room for a float32 one (6e-8)


def assert_equal(given: Tensor, exact: Tensor, share: float = EXACT) -> None:
    """Two float64 results agree to `share` of the largest number among them."""
    assert given.dtype == exact.dtype == torch.float64, f"{given.dtype} and {exact.dtype}; this comparison is for float64"
    assert given.shape == exact.shape, f"shapes {tuple(given.shape)} and {tuple(exact.shape)}"
    assert _worst(given, exact) <= share * max(1.0, _largest(exact)), f"off by {_worst(given, exact):.2e}"


def bound(plain: Tensor, exact: Tensor, roundings: float = 4) -> float:
    """The largest allowed error of a kernel: twice that of the plain reference in the same precision, plus some roundings."""
    assert exact.dtype == torch.float64
    return 2 * _worst(plain, exact) + roundings * torch.finfo(plain.dtype).eps * _largest(exact)


def assert_as_accurate(given: Tensor, plain: Tensor, exact: Tensor, roundings: float = 4) -> None:
    assert given.dtype == plain.dtype, f"{given.dtype} is compared with {plain.dtype}"
    assert given.shape == exact.shape, f"shapes {tuple(given.shape)} and {tuple(exact.shape)}"
    off, allowed = _worst(given, exact), bound(plain, exact, roundings)
    assert off <= allowed, f"off by {off:.2e}; allowed {allowed:.2e}"


def _worst(given: Tensor, exact: Tensor) -> float:
    if not given.numel():
        return 0.0
    worst = (given.detach().double() - exact.detach()).abs().max().item()
    assert not math.isnan(worst), "there is a NaN"
    return float(worst)


def _largest(exact: Tensor) -> float:
    return exact.detach().abs().max().item() if exact.numel() else 0.0
