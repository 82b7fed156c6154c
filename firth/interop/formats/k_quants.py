"""Q4_K and Q6_K, two quantised types of llama.cpp, which the package gguf reads but does not write. A block has 256 weights:

    Q6_K    16 groups of 16    x ≈ d c_g q              q in −32 … 31, c_g an int8, d a float16             6.56 bits a weight
    Q4_K     8 groups of 32    x ≈ d c_g q − e m_g      q in 0 … 15, c_g and m_g of 6 bits, d, e float16    4.5 bits a weight

Each group tries a few scales near the one that just covers its weights, and takes the one with the smallest weighted squared
error. These scales are then rounded, and last of all the weights, by the scales as they are stored.

Letters: R rows, C columns, N blocks, B numbers of a block, G groups, E weights of a group, h halves of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
BLOCK = 256
_AT_ONCE = 1 << 12  # blocks: what numpy makes of a million weights fits into a cache


def quantised_q6_k(x_RC: Floats) -> Bytes:
    """The bytes of each row; the number of columns is a multiple of BLOCK."""
    return _by_blocks(x_RC, _q6_k)


def quantised_q4_k(x_RC: Floats) -> Bytes:
    return _by_blocks(x_RC, _q4_k)


def _by_blocks(x_RC: Floats, quantise: Callable[[Floats], Bytes]) -> Bytes:
    x_NB = x_RC.reshape(-1, BLOCK)
    parts = [quantise(x_NB[first : first + _AT_ONCE]) for first in range(0, len(x_NB), _AT_ONCE)]
    return np.concatenate(parts).reshape(len(x_RC), -1)


def _q6_k(x_NB: Floats) -> Bytes:
    x_NGE = x_NB.reshape(-1, 16, 16)
    scale_NG = _symmetric_scales(x_NGE, 32)
    widest_N1 = np.take_along_axis(scale_NG, abs(scale_NG).argmax(1)[:, None], 1)
    d_N1 = _float16(widest_N1 / np.float32(-128))  # the widest becomes −128, the end of an int8 that is farther from 0
    c_NG = np.clip(np.rint(_ratio(scale_NG, d_N1)), -128, 127)
    q_NGE = np.clip(np.rint(_ratio(x_NGE, (d_N1 * c_NG)[..., None])), -32, 31)
    q_Nh4B = (q_NGE + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # two halves; in each, four runs of 32 share bytes
    low_NhB = np.concatenate([q_Nh4B[:, :, n] & 15 | (q_Nh4B[:, :, n + 2] & 15) << 4 for n in (0, 1)], axis=-1)
    high_NhB = sum((q_Nh4B[:, :, n] >> 4 << 2 * n for n in range(4)), np.zeros_like(q_Nh4B[:, :, 0]))
    count = len(x_NB)
    parts = low_NhB.reshape(count, -1), high_NhB.reshape(count, -1), c_NG.astype(np.int8).view(np.uint8), _bytes(d_N1)
    return np.concatenate(parts, axis=1)


def _q4_k(x_NB: Floats) -> Bytes:
    x_NGE = x_NB.reshape(-1, 8, 32)
    scale_NG, least_NG = _scales_and_minima(x_NGE, 15)
    d_N1, e_N1 = (_float16(found_NG.max(1, keepdims=True) / 63) for found_NG in (scale_NG, least_NG))
    c_NG, m_NG = (
        np.clip(np.rint(_ratio(found_NG, unit_N1)), 0, 63) for found_NG, unit_N1 in ((scale_NG, d_N1), (least_NG, e_N1))
    )
    shifted_NGE = x_NGE + (e_N1 * m_NG)[..., None]
    q_NGE = np.clip(np.rint(_ratio(shifted_NGE, (d_N1 * c_NG)[..., None])), 0, 15).astype(np.uint8)
    packed_NB = (q_NGE[:, ::2] | q_NGE[:, 1::2] << 4).reshape(len(x_NB), -1)
    return np.concatenate((_bytes(d_N1), _bytes(e_N1), _packed_scales(c_NG, m_NG), packed_NB), axis=1)


def _packed_scales(c_NG: Floats, m_NG: Floats) -> Bytes:
    """Eight and eight numbers of 6 bits in twelve bytes: the first four of each whole, with the upper two bits of the last four
    above them; then the lower four bits of these."""
    c, m = c_NG.astype(np.uint8), m_NG.astype(np.uint8)
    whole = [one[:, :4] | one[:, 4:] >> 4 << 6 for one in (c, m)]
    return np.concatenate((*whole, c[:, 4:] & 15 | (m[:, 4:] & 15) << 4), axis=1)


def _symmetric_scales(x_NGE: Floats, most: int) -> Floats:
    """s with the smallest Σ x² (x − s q)², q = x / s rounded to −most … most − 1."""
    widest_NG1 = np.take_along_axis(x_NGE, abs(x_NGE).argmax(-1)[..., None], -1)
    weight_NGE = x_NGE * x_NGE
    best_NG, explained_NG = np.zeros_like(widest_NG1[..., 0]), np.full(x_NGE.shape[:2], -1.0, np.float32)
    for steps in np.linspace(most - 1, most + 1, 9, dtype=np.float32):
        q_NGE = np.clip(np.rint(_ratio(x_NGE, widest_NG1 / -steps)), -most, most - 1)
        xq_NG, qq_NG = (weight_NGE * x_NGE * q_NGE).sum(-1), (weight_NGE * q_NGE * q_NGE).sum(-1)
        s_NG = _ratio(xq_NG, qq_NG)  # the least squares for these q
        better_NG = s_NG * xq_NG > explained_NG
        best_NG, explained_NG = np.where(better_NG, s_NG, best_NG), np.where(better_NG, s_NG * xq_NG, explained_NG)
    return best_NG


def _scales_and_minima(x_NGE: Floats, most: int) -> tuple[Floats, Floats]:
    """s ≥ 0 and m ≥ 0 with the smallest Σ w (x − s q + m)², q = (x + m) / s rounded to 0 … most, w = |x| + √mean x²."""
    low_NG1, high_NG1 = np.minimum(x_NGE.min(-1, keepdims=True), 0), x_NGE.max(-1, keepdims=True)
    weight_NGE = abs(x_NGE) + np.sqrt((x_NGE * x_NGE).mean(-1, keepdims=True))
    w_NG, x_NG = weight_NGE.sum(-1), (weight_NGE * x_NGE).sum(-1)
    scale_NG, least_NG = np.zeros_like(w_NG), -low_NG1[..., 0]
    error_NG = np.full_like(w_NG, np.inf)
    for steps in np.linspace(most - 1.5, most + 1, 11, dtype=np.float32):
        q_NGE = np.clip(np.rint(_ratio(x_NGE - low_NG1, (high_NG1 - low_NG1) / steps)), 0, most)
        q_NG, qq_NG = (weight_NGE * q_NGE).sum(-1), (weight_NGE * q_NGE * q_NGE).sum(-1)
        xq_NG = (weight_NGE * x_NGE * q_NGE).sum(-1)
        s_NG = np.maximum(_ratio(w_NG * xq_NG - x_NG * q_NG, w_NG * qq_NG - q_NG * q_NG), 0)
        m_NG = _ratio(s_NG * q_NG - x_NG, w_NG)
        s_NG, m_NG = np.where(m_NG < 0, np.maximum(_ratio(xq_NG, qq_NG), 0), s_NG), np.maximum(m_NG, 0)
        missed_NG = (weight_NGE * np.square(s_NG[..., None] * q_NGE - m_NG[..., None] - x_NGE)).sum(-1)
        better_NG = missed_NG < error_NG
        scale_NG, least_NG = np.where(better_NG, s_NG, scale_NG), np.where(better_NG, m_NG, least_NG)
        error_NG = np.where(better_NG, missed_NG, error_NG)
    return scale_NG, least_NG


def _ratio(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def _float16(x_N1: Floats) -> Floats:
    """Rounded to float16, as it is stored."""
    return x_N1.astype(np.float16).astype(np.float32)


def _bytes(x_N1: Floats) -> Bytes:
    return x_N1.astype("<f2").view(np.uint8)
