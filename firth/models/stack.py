"""A stack of Transformer blocks with their positions and the last norm. Letters: B batch, T time, S source, d width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.block import Block
from firth.layers.cross_attention import Source
from firth.layers.norm import norm
from firth.layers.position import Distances, Learned, Rotary, Sinusoidal, Slopes
from firth.layers.self_attention import Where
from firth.layers.state import AttentionState
from firth.models.config import BUCKETS, CLIP, REACH, TransformerSettings


class Stack(nn.Module):
    """x → blocks → norm. `both`: it reads both ways, so that distances have a sign; `cross`: its blocks look at a source, too."""

    def __init__(self, config: TransformerSettings, depth: int, *, both: bool = False, cross: bool = False) -> None:
        super().__init__()
        if config.context is None:
            raise ConfigError("model.context is missing; a Transformer needs the longest text it reads at once")
        self.settings = config
        width = config.width
        self.position: Learned | Sinusoidal | None = None
        self.rotary: Rotary | None = None
        self.relative: Distances | Slopes | None = None
        clip = None
        match config.position:
            case "learned":
                self.position = Learned(config.context, width)
            case "sinusoidal":
                self.position = Sinusoidal(config.context, width, config.base)
            case "rotary":
                self.rotary = Rotary(config.context, width // config.heads, config.base)
            case "t5":
                self.relative = Distances(config.buckets or BUCKETS, config.heads, both=both, reach=config.reach or REACH)
            case "alibi":
                self.relative = Slopes(config.heads)
            case "shaw":
                clip = config.clip or CLIP
            case "none":
                pass
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                config.groups,
                config.inner,
                activation=config.activation,
                norm_kind=config.norm,
                placement=config.norm_placement,
                bias=config.bias,
                dropout=config.dropout,
                score=config.score,
                clip=clip,
                both=both,
                cross=cross,
            )
            for _ in range(depth)
        )
        # A post-norm block ends in a norm already.
        self.norm = norm(config.norm, width, config.bias) if config.norm_placement == "pre" else nn.Identity()

    def placed(self, x_BTd: Tensor, start: int, before_B: Tensor | None = None) -> Tensor:
        """Embedded tokens, the first of them at `start`, with their places; `before_B` of those before a row are padding."""
        if isinstance(self.position, Sinusoidal):
            x_BTd = x_BTd * self.settings.width**0.5  # Vaswani et al. 2017, §3.4: keeps the token audible beside the sinusoid
        if self.position is not None:
            x_BTd = x_BTd + self._places(self.position, start, x_BTd.shape[1], before_B)
        if torch.is_autocast_enabled(x_BTd.device.type):
            # The sum that runs through all blocks, too, is kept in the type of the products: half the memory to move.
            x_BTd = x_BTd.to(torch.get_autocast_dtype(x_BTd.device.type))
        return F.dropout(x_BTd, self.settings.dropout, self.training) if self.settings.dropout else x_BTd

    @staticmethod
    def _places(position: Learned | Sinusoidal, start: int, length: int, before_B: Tensor | None) -> Tensor:
        if before_B is None or not len(before_B):
            return position(start, length)  # type: ignore[no-any-return]
        place_BT = torch.arange(start, start + length, device=before_B.device) - before_B[:, None]
        table_Td: Tensor = position(0, start + length - int(before_B.min()))
        return table_Td[place_BT.clamp(min=0)]

    def through(
        self,
        x_BTd: Tensor,
        allowed: mask.Mask,
        state: AttentionState | None = None,
        sources: Sequence[Source] | None = None,
    ) -> tuple[Tensor, AttentionState | None]:
        """The blocks one after the other, and the state that has read x, where one was given."""
        where = self._where(state.length if state else 0, x_BTd.shape[1])
        layers = []
        for n, block in enumerate(self.blocks):
            source = sources[n] if sources is not None else None
            x_BTd, layer = block(x_BTd, allowed, where, state.layers[n] if state else None, source)
            layers.append(layer)
        return self.norm(x_BTd), AttentionState(tuple(layers)) if state else None

    def _where(self, start: int, length: int) -> Where:
        if self.rotary is not None:
            return self.rotary.at(start, length)
        return self.relative() if self.relative is not None else None
