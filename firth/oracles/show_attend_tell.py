"""Show, attend and tell as a student would first write it (Xu et al. 2015): one image, one pixel and one word at a time, in
float64, without torch.

    convolution   y_rck = Σ_ij Σ_C W_kCij x_{r+i−1, c+j−1, C}          zero outside the image
    norm          gain ⊙ (x − mean) / √(variance + ε) + bias           over the channels of a pixel
    attention     α_t = softmax over s of v·tanh(W h_{t−1} + U a_s)    z_t = Σ_s α_ts a_s
    LSTM          i, f, o = σ(…), g = tanh(…), each of W [e_t; z_t] + U h_{t−1} + b      c_t = f⊙c_{t−1} + i⊙g    h_t =
    o⊙tanh(c_t) word          ŷ_t = softmax(W_h h_t + W_e e_t + W_z z_t + b)

Letters: H, W, C height, width, channels, R rows and K columns of cells, S = R·K, T words, e embedding, m channels of a cell, d
width, A comparison, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from firth.oracles.rnnsearch import Sum, sigmoid, softmax

Array = npt.NDArray[np.float64]

_EPSILON = 1e-5


class Convolution(NamedTuple):
    """With the norm that follows it."""

    kernel_kC33: Array
    gain_k: Array
    bias_k: Array


class CaptionDecoder(NamedTuple):
    v_A: Array
    W_Ad: Array
    U_Am: Array
    input: Sum
    forget: Sum
    candidate: Sum
    gate: Sum  # of the output
    word: Sum


class CaptionTrace(NamedTuple):
    alignment_TS: Array
    h_Td: Array
    probability_TV: Array


def cells(image_HWC: npt.NDArray[np.uint8], convolutions: Sequence[Convolution], row_Rm: Array, column_Km: Array) -> Array:
    """a_Sm: after each convolution but the last, the maximum of every four pixels; then the place of each cell."""
    x_HWC = (image_HWC.astype(np.float64) / 255 - 0.5) / 0.25
    for n, convolution in enumerate(convolutions):
        x_HWC = np.maximum(_normalized(convolve(x_HWC, convolution.kernel_kC33), convolution), 0)
        if n < len(convolutions) - 1:
            x_HWC = _halved(x_HWC)
    return np.array([x_HWC[r, k] + row_Rm[r] + column_Km[k] for r in range(len(row_Rm)) for k in range(len(column_Km))])


def convolve(x_HWC: Array, kernel_kC33: Array) -> Array:
    height, width, _ = x_HWC.shape
    y_HWk = np.zeros((height, width, len(kernel_kC33)))
    for r in range(height):
        for c in range(width):
            for i in range(3):
                for j in range(3):
                    if 0 <= r + i - 1 < height and 0 <= c + j - 1 < width:
                        y_HWk[r, c] += kernel_kC33[:, :, i, j] @ x_HWC[r + i - 1, c + j - 1]
    return y_HWk


def decode(embedded_Te: Array, cell_Sm: Array, h_d: Array, c_d: Array, decoder: CaptionDecoder) -> CaptionTrace:
    alignments, hidden, probabilities = [], [], []
    for e_e in embedded_Te:
        alpha_S = softmax(np.array([float(decoder.v_A @ np.tanh(decoder.W_Ad @ h_d + decoder.U_Am @ a_m)) for a_m in cell_Sm]))
        z_m = sum((alpha * a_m for alpha, a_m in zip(alpha_S, cell_Sm, strict=True)), np.zeros(cell_Sm.shape[1]))
        keep_d, write_d, show_d = (sigmoid(gate.of(h_d, e_e, z_m)) for gate in (decoder.forget, decoder.input, decoder.gate))
        c_d = keep_d * c_d + write_d * np.tanh(decoder.candidate.of(h_d, e_e, z_m))
        h_d = show_d * np.tanh(c_d)
        alignments.append(alpha_S)
        hidden.append(h_d)
        probabilities.append(softmax(decoder.word.of(h_d, e_e, z_m)))
    return CaptionTrace(*(np.array(rows) for rows in (alignments, hidden, probabilities)))


def _normalized(x_HWk: Array, convolution: Convolution) -> Array:
    normalized = np.empty_like(x_HWk)
    for place in np.ndindex(x_HWk.shape[:2]):
        x_k = x_HWk[place]
        normalized[place] = convolution.gain_k * (x_k - x_k.mean()) / np.sqrt(x_k.var() + _EPSILON) + convolution.bias_k
    return normalized


def _halved(x_HWk: Array) -> Array:
    height, width, _ = x_HWk.shape
    return np.array(
        [[x_HWk[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max((0, 1)) for c in range(width // 2)] for r in range(height // 2)]
    )
