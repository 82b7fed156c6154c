"""A stack of Transformer blocks with their positions and the final norm. Letters: B batch, T time, S source, d width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.block import Block
from firth.layers.cross_attention import Source
from firth.layers.position import SCHEMES, LayerPosition, PositionScheme
from firth.layers.state import AttentionState
from firth.layers.token_mixer import MIXERS
from firth.models.config import TransformerSettings


class Stack(nn.Module):
    """x → blocks → norm. `bidirectional`: a token sees later tokens, too, so that distances have a sign; `cross`: its blocks also
    attend to a source; `groups`: there are that many blocks, and each is several consecutive layers (Lan et al. 2020, §3.1)."""

    def __init__(
        self,
        config: TransformerSettings,
        depth: int,
        *,
        bidirectional: bool = False,
        cross: bool = False,
        groups: int | None = None,
    ) -> None:
        super().__init__()
        if config.context is None:
            raise ConfigError("model.context is missing; a Transformer needs the length of the longest text it processes at once")
        self.settings, inputs, of_kind = config, config.embedding_width, SCHEMES[config.position.kind]
        scheme = of_kind.of(config, bidirectional)
        self.position_attribute = scheme.attribute
        self.add_module(scheme.attribute, scheme)
        self.local_scheme = of_kind.in_windows(config, bidirectional)  # its tables are not saved: no names in a checkpoint
        scaled = scheme.scales_embedding if config.embedding.scale is None else config.embedding.scale
        self.embedding_scale = inputs**0.5 if scaled else None
        block = config.block(
            bidirectional=bidirectional, cross=cross, tables=scheme.in_layers(), position_projections=scheme.own_projections
        )
        self.embedding_norm = block.make_norm(inputs) if config.embedding.norm else None
        self.embedding_projection = None if inputs == config.width else nn.Linear(inputs, config.width, bias=block.biased)
        self.mixers = [config.attention.in_layer(layer) for layer in range(depth)]
        self.is_local = [MIXERS[mixer].local for mixer in self.mixers]
        shared = depth // (groups or depth)  # layers of each block
        self.blocks = nn.ModuleList(Block(replace(block, mixer=mixer, layers=shared)) for mixer in self.mixers[::shared])
        if config.embedding.norm == "replaces_first":
            self.blocks[0].attention_norm = nn.Identity()
        # A post-norm block already ends in a norm.
        self.norm = nn.Identity() if config.norm.placement == "post" else block.make_norm()

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
        self, x_BTd: Tensor, allowed: mask.Mask, state: AttentionState | None = None, sources: Sequence[Source] | None = None
    ) -> tuple[Tensor, AttentionState | None]:
        """The output of the last block, normalised, and the state after x if one was given."""
        start, length = state.length if state else 0, x_BTd.shape[1]
        position = _of_layers(self.scheme, start, length)
        local = position if self.local_scheme is None else _of_layers(self.local_scheme, start, length)
        layers = []
        for n, block in enumerate(self.layers()):
            source = sources[n] if sources is not None else None
            where = local if self.is_local[n] else position
            x_BTd, layer = block(x_BTd, allowed, where, state.layers[n] if state else None, source)
            layers.append(layer)
        return self.norm(x_BTd), state.after(layers, length) if state else None

    def layers(self) -> Iterable[nn.Module]:
        """The block of each layer."""
        own = len(self.blocks) == len(self.mixers)
        return self.blocks if own else [block for block in self.blocks for _ in range(len(self.mixers) // len(self.blocks))]

    def reach(self, length: int) -> None:
        """Make the tables of positions long enough for texts of this length: fixed states do not check."""
        for scheme in (self.scheme, self.local_scheme):
            if scheme is not None:
                scheme.reach(length)


def _of_layers(scheme: PositionScheme, start: int | Tensor, length: int) -> LayerPosition:
    """The positions that a scheme passes to the attention layers."""
    turn = scheme.turn(start, length)
    return scheme.relative() if turn is None else turn
