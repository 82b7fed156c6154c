"""Self-attention in the three parametrisations found in textbooks, as functions of plain matrices. Letters: B batch, T time,
d width, H heads, G key/value heads, D head width.

    plain       q = k = v = x
    projected   q = x W^Q, k = x W^K, v = x W^V, o = Concat(head_1 … head_H) W^O
    residual    v_i⁺ = v_i + P Σ_j α_ij v_j,   α_ij ∝ exp(v_jᵀ Q v_i)

Models use the second, with its matrices fused into one: self_attention.SelfAttention.
"""

from __future__ import annotations

from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask, score


def plain(x_BTd: Tensor, *, score: score.Score = score.SCALED_DOT, mask: mask.Mask = mask.FULL) -> Tensor:
    """softmax(x xᵀ / √d) x: each token becomes a mean of the tokens similar to it. Nothing to train."""
    x_B1Td = x_BTd.unsqueeze(1)
    return attend(x_B1Td, x_B1Td, x_B1Td, score=score, mask=mask).squeeze(1)


def projected(
    x_BTd: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    heads: int,
    *,
    score: score.Score = score.SCALED_DOT,
    mask: mask.Mask = mask.FULL,
) -> Tensor:
    """W^Q is d × H·D; W^K and W^V are d × G·D, so that heads share keys and values if G < H; W^O is H·D × d."""
    if W_Q.shape[1] % heads or W_K.shape[1] % (W_Q.shape[1] // heads):
        raise ConfigError(
            f"W^Q has {W_Q.shape[1]} columns and W^K {W_K.shape[1]} for {heads} heads; expected heads·D and kv_heads·D columns"
        )
    if W_V.shape[1] != W_K.shape[1] or W_O.shape[0] != W_Q.shape[1]:
        raise ConfigError(
            f"W^V has {W_V.shape[1]} columns where W^K has {W_K.shape[1]}, "
            f"W^O {W_O.shape[0]} rows where W^Q has {W_Q.shape[1]} columns; expected as many"
        )
    head_width = W_Q.shape[1] // heads
    B, T, _ = x_BTd.shape
    q_BHTD, k_BGTD, v_BGTD = ((x_BTd @ W).view(B, T, -1, head_width).transpose(1, 2) for W in (W_Q, W_K, W_V))
    return attend(q_BHTD, k_BGTD, v_BGTD, score=score, mask=mask).transpose(1, 2).flatten(2) @ W_O


def residual(v_BTd: Tensor, P_dd: Tensor, Q_dd: Tensor, *, mask: mask.Mask = mask.FULL) -> Tensor:
    """v⁺ = v + P Σ α v. A token that sees nothing stays as it is."""
    for name, matrix in (("P", P_dd), ("Q", Q_dd)):
        if matrix.shape != (v_BTd.shape[-1],) * 2:
            raise ConfigError(f"{name} has shape {tuple(matrix.shape)}; tokens of width {v_BTd.shape[-1]} need a square of that")
    v_B1Td = v_BTd.unsqueeze(1)
    pull_BTd = attend(v_B1Td, v_B1Td, v_B1Td, score=score.bilinear(Q_dd.T), mask=mask).squeeze(1)
    return v_BTd + pull_BTd @ P_dd.T
