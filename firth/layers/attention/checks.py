"""The calls that attend() refuses. Letters as in call.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.mask import Mask
from firth.layers.attention.score import Score
from firth.layers.position import Relative

if TYPE_CHECKING:
    from firth.layers.attention.call import Call


def check(call: Call) -> None:
    """Raise if the tensors, the score, the mask and the start of a call do not fit each other."""
    q, k, v = call.q_BHQD, call.k_BGKC, call.v_BGKE
    if not (q.ndim == k.ndim == v.ndim == 4):
        raise ConfigError(f"attend() takes q_BHQD, k_BGKC and v_BGKE, four axes each; given {_shapes(call)}")
    (B, H, Q, D), (B_k, G, K, C), (B_v, G_v, K_v, _) = q.shape, k.shape, v.shape
    if not B == B_k == B_v:
        raise ConfigError(f"q, k and v must have the same batch; given {_shapes(call)}")
    if (G_v, K_v) != (G, K):
        raise ConfigError(f"k and v must have the same heads and length; given {_shapes(call)}")
    if G == 0 or H % G:
        raise ConfigError(f"{G} key/value heads do not divide {H} query heads; kv_heads must be a divisor of heads")
    _check_kinds(q, k, v)
    _check_devices(call, q.device)
    call.score.check(H, G, D, C)
    if call.cap is not None and not 0 < call.cap < math.inf:
        raise ConfigError(f"cap is {call.cap}; expected a number above 0, such as 50")
    if not isinstance(call.mask, Mask):
        raise ConfigError(
            f"mask is a {type(call.mask).__name__}; compose one of mask.CAUSAL, mask.lengths(…) and so on, "
            "or write a subclass of mask.Mask"
        )
    call.mask.check(B, _end(call.q_start, B, Q), K)


def _shapes(call: Call) -> str:
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in (("q", call.q_BHQD), ("k", call.k_BGKC), ("v", call.v_BGKE)))


def _check_kinds(q: Tensor, k: Tensor, v: Tensor) -> None:
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        kinds = ", ".join(f"{name} {t.dtype} on {t.device}" for name, t in (("q", q), ("k", k), ("v", v)))
        raise ConfigError(f"q, k and v must share one dtype and one device; given {kinds}")
    if not q.dtype.is_floating_point:
        raise ConfigError(f"q, k and v are {q.dtype}; expected float32, bfloat16 or float64")


def _check_devices(call: Call, device: torch.device) -> None:
    for owner in (call.score, call.position):
        for name, value in vars(owner).items() if isinstance(owner, Score | Relative) else ():
            if isinstance(value, Tensor) and value.device != device:
                raise ConfigError(
                    f"{name} of {type(owner).__name__} is on {value.device}, q, k and v are on {device}; move all to one device"
                )


def _end(start: int | Tensor, B: int, Q: int) -> int:
    """The position after the last query. Starts on a GPU are not read: that would synchronise in every layer."""
    if isinstance(start, int):
        if start < 0:
            raise ConfigError(f"q_start is {start}; positions count from 0")
        return start + Q
    if not isinstance(start, Tensor):
        raise ConfigError(f"q_start is a {type(start).__name__}; give one int, or a tensor with one start per row")
    if start.ndim == 2 and (start.shape[0] not in (1, B) or start.shape[1] != Q):
        raise ConfigError(f"q_start has the shape {tuple(start.shape)}; {Q} queries of {B} rows need (1, {Q}) or ({B}, {Q})")
    if start.ndim < 2 and start.numel() not in (1, B):
        raise ConfigError(f"q_start has {start.numel()} starts for a batch of {B}; give one int, or one per row")
    if start.device.type != "cpu" or not start.numel():
        return Q
    return int(start.max()) + (1 if start.ndim == 2 else Q)


def check_position(position: object, H: int, C: int, E: int) -> None:
    if not isinstance(position, Relative):
        raise ConfigError(
            f"attend() takes position.rotary, shaw, buckets, alibi or disentangled; given {type(position).__name__}. "
            "Learned and sinusoidal positions are added to the embedding, before q and k are computed"
        )
    position.check(H, C, E)
