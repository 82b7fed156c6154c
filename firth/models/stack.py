"""A stack of Transformer blocks with their positions and the final norm. Letters: B batch, T time, S source, d width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.block import Block
from firth.layers.cross_attention import Source
from firth.layers.position import LayerPosition, PositionScheme, position_scheme
from firth.layers.state import AttentionState
from firth.layers.token_mixer import SelfAttentionKind, of_layer
from firth.models.config import TransformerSettings


class Stack(nn.Module):
    """x → blocks → norm. `bidirectional`: a token sees later tokens, too, so that distances have a sign; `cross`: its blocks also
    attend to a source."""

    def __init__(
        self,
        config: TransformerSettings,
        depth: int,
        *,
        bidirectional: bool = False,
        cross: bool = False,
        attention: SelfAttentionKind = "softmax",
        span: int | None = None,
        key_width: int | None = None,
        score_scale: float | None = None,
        score_cap: float | None = None,
    ) -> None:
        super().__init__()
        if config.context is None:
            raise ConfigError("model.context is missing; a Transformer needs the length of the longest text it processes at once")
        self.settings, inputs = config, config.embedding_width
        scheme = position_scheme(config.position).of(config, bidirectional)
        self.position_attribute = scheme.attribute
        self.add_module(scheme.attribute, scheme)
        local = config.in_windows()  # rotary tables are not saved, so that it adds no names to a checkpoint
        self.local_scheme = None if local is None else position_scheme(local.position).of(local, bidirectional)
        scaled = scheme.scales_embedding if config.embedding_scale is None else config.embedding_scale
        self.embedding_scale = inputs**0.5 if scaled else None
        self.embedding_norm = config.make_norm(inputs) if config.embedding_norm else None
        self.embedding_projection = None if inputs == config.width else nn.Linear(inputs, config.width, bias=config.bias is True)
        self.blocks = nn.ModuleList(
            Block(
                config.width,
                config.heads,
                config.groups,
                config.inner,
                activation=config.activation,
                norm_kind=config.norm,
                placement=config.norm_placement,
                bias=config.bias,
                dropout=config.dropout,
                norm_eps=config.norm_eps,
                head_width=config.per_head,
                qk_norm=config.qk_norm,
                score=config.score,
                score_scale=score_scale,
                score_cap=score_cap,
                tables=scheme.in_layers(),
                position_projections=scheme.own_projections,
                cross=cross,
                parallel=config.parallel_block,
                attention="window" if config.is_local(layer) else of_layer(attention, layer),
                span=span,
                around=bidirectional,
                key_width=key_width,
            )
            for layer in range(depth)
        )
        if config.embedding_norm == "replaces_first":
            self.blocks[0].attention_norm = nn.Identity()
        # A post-norm block already ends in a norm.
        self.norm = nn.Identity() if config.norm_placement == "post" else config.make_norm()

    @property
    def scheme(self) -> PositionScheme:
        """The position scheme. Which attribute holds it depends on the scheme: the names of its parameters begin with it."""
        scheme: PositionScheme = getattr(self, self.position_attribute)
        return scheme

    def embed_positions(self, x_BTd: Tensor, start: int | Tensor, before_B: Tensor | None = None) -> Tensor:
        """Embedded tokens, the first of them at `start`, in all rows or one per row, with their positions; `before_B` tokens
        before a row are padding."""
        if self.embedding_scale is not None:
            x_BTd = x_BTd * self.embedding_scale
        x_BTd = self.scheme.embed(x_BTd, start, before_B)
        if self.embedding_norm is not None:
            x_BTd = self.embedding_norm(x_BTd)
        if torch.is_autocast_enabled(x_BTd.device.type):
            # The residual stream is kept in the type of the products, too: half the memory traffic.
            x_BTd = x_BTd.to(torch.get_autocast_dtype(x_BTd.device.type))
        if self.settings.dropout and self.training:
            x_BTd = F.dropout(x_BTd, self.settings.dropout)
        return x_BTd if self.embedding_projection is None else self.embedding_projection(x_BTd)

    def run_blocks(
        self,
        x_BTd: Tensor,
        allowed: mask.Mask,
        state: AttentionState | None = None,
        sources: Sequence[Source] | None = None,
    ) -> tuple[Tensor, AttentionState | None]:
        """The output of the last block, normalised, and the state after x if one was given."""
        start, length = state.length if state else 0, x_BTd.shape[1]
        position = _of_layers(self.scheme, start, length)
        local = position if self.local_scheme is None else _of_layers(self.local_scheme, start, length)
        layers = []
        for n, block in enumerate(self.blocks):
            source = sources[n] if sources is not None else None
            where = local if self.settings.is_local(n) else position
            x_BTd, layer = block(x_BTd, allowed, where, state.layers[n] if state else None, source)
            layers.append(layer)
        return self.norm(x_BTd), state.after(layers, length) if state else None

    def reach(self, length: int) -> None:
        """Make the tables of positions long enough for texts of this length: fixed states do not check."""
        for scheme in (self.scheme, self.local_scheme):
            if scheme is not None:
                scheme.reach(length)


def _of_layers(scheme: PositionScheme, start: int | Tensor, length: int) -> LayerPosition:
    """What a scheme passes to the attention layers."""
    turn = scheme.turn(start, length)
    return scheme.relative() if turn is None else turn
