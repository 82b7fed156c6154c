"""The layer of a block in which tokens see each other, one of several kinds."""

from __future__ import annotations

from typing import Literal

from firth.layers.attention.score import ScoreKind
from firth.layers.linear_attention.layers import GatedLinearAttention, LinearAttention, TaylorAttention
from firth.layers.position import LayerTables
from firth.layers.self_attention import Biases, HeadNorm, SelfAttention, TokenMixer, WindowAttention

SelfAttentionKind = Literal["softmax", "linear", "gated_linear", "based"]
MixerKind = Literal["softmax", "linear", "gated_linear", "taylor", "window"]
BASED_SPAN = 64  # tokens in the window of Based, the current one included (Arora et al. 2024, §4.2)


def of_layer(kind: SelfAttentionKind, layer: int) -> MixerKind:
    """Based alternates a Taylor layer, which sees everything in outline, with a window, which sees the last tokens sharply."""
    if kind == "based":
        return "taylor" if layer % 2 == 0 else "window"
    return kind


def token_mixer(
    kind: MixerKind,
    width: int,
    heads: int,
    kv_heads: int,
    bias: Biases,
    *,
    head_width: int | None = None,
    qk_norm: HeadNorm | None = None,
    score: ScoreKind = "scaled_dot",
    score_scale: float | None = None,
    score_cap: float | None = None,
    tables: LayerTables | None = None,
    position_projections: bool = False,
    span: int | None = None,
    around: bool = False,
    key_width: int | None = None,
) -> TokenMixer:
    match kind:
        case "softmax":
            return SelfAttention(
                width, heads, kv_heads, bias, score, tables, position_projections, head_width, qk_norm, score_scale, score_cap
            )
        case "window":
            return WindowAttention(
                width,
                heads,
                kv_heads,
                bias,
                score,
                tables,
                position_projections,
                head_width,
                qk_norm,
                score_scale,
                score_cap,
                span=span or BASED_SPAN,
                around=around,
            )
        case "linear":
            return LinearAttention(width, heads, bias is True)
        case "taylor":
            return TaylorAttention(width, heads, bias is True, key_width)
        case "gated_linear":
            return GatedLinearAttention(width, heads, bias is True)
