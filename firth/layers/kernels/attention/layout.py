"""The places of a kernel's tensors in memory."""

from __future__ import annotations

from torch import Tensor


def padded(width: int) -> int:
    """The least power of two that holds `width`, at least 16: Triton's blocks and products allow no other widths."""
    return max(16, 1 << (width - 1).bit_length())


def dense_rows(x: Tensor) -> Tensor:
    """x with neighbouring elements along its last axis."""
    return x if x.stride(-1) == 1 else x.contiguous()


def empty_rows(like: Tensor, heads: int, n: int, width: int) -> Tensor:
    """An empty B,H,n,w stored as B,n,H,w, the layout that the projections around the attention read and write."""
    return like.new_empty(len(like), n, heads, width).transpose(1, 2)
