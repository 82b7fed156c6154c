"""Captions: p(y | image) = Π p(y_t | y_<t, cells of the image). Encoders of images; the decoders are in conditional.py.

Images are bytes, image_BHWC.

Letters: B batch, H, W height and width in pixels, C channels, S cells, T caption, V vocabulary, m width of a cell, d width.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.image_cells import Convolutions, ImageCells, Patches
from firth.layers.position import NoPosition
from firth.models.caption_config import CaptionModelConfig, RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.conditional import ConditionalDecoder, EncodedSource, RecurrentDecoder, TransformerDecoder
from firth.models.embedding_config import TransformerEmbeddingConfig
from firth.models.stack import Stack


class ConvolvedImage(ImageCells):
    """The cells of an image as convolutions leave them, as in Show, attend and tell (Xu et al. 2015)."""

    reads_text, recurrent = False, False

    def __init__(self, channels: tuple[int, ...], size: int, dropout: float) -> None:
        super().__init__(Convolutions(channels, size))
        self.memory_width, self.size, self.dropout = self.width, size, dropout

    def encode(self, image_BHWC: Tensor) -> EncodedSource:
        cell_BSm: Tensor = self(image_BHWC)
        return _encoded(F.dropout(cell_BSm, self.dropout, self.training) if self.dropout else cell_BSm)


class ImageTransformer(nn.Module):
    """Cells, and Transformer layers in which each cell attends to all others (Dosovitskiy et al. 2021)."""

    reads_text, recurrent = False, False

    def __init__(self, config: TransformerCaptionConfig, size: int) -> None:
        super().__init__()
        patches = config.encoder == "patch"
        self.cells = ImageCells(Patches(config.patch, config.width, size) if patches else Convolutions(config.channels, size))
        self.memory_width, self.size, self.grid = config.width, size, self.cells.grid
        same = self.cells.width == config.width
        self.widen = None if same else nn.Linear(self.cells.width, config.width, bias=False)
        # The cells have places already: the scheme of the decoder, which counts along a text, does not apply to a grid.
        plain = dataclasses.replace(
            config,
            position=NoPosition.Config(kind="none"),
            embedding=TransformerEmbeddingConfig(scale=False),
            context=self.cells.cells,
        )
        self.stack = Stack(plain, config.layers_over_cells, bidirectional=True) if config.layers_over_cells else None

    def forward(self, image_BHWC: Tensor) -> Tensor:
        x_BSd: Tensor = self.cells(image_BHWC)
        if self.widen is not None:
            x_BSd = self.widen(x_BSd)
        if self.stack is not None:
            x_BSd, _ = self.stack.run_blocks(self.stack.embed_positions(x_BSd, 0), mask.FULL)
        return x_BSd

    def encode(self, image_BHWC: Tensor) -> EncodedSource:
        return _encoded(self(image_BHWC))


def captioner(config: CaptionModelConfig, size: int, vocab: int) -> ConditionalDecoder:
    """The module for images of `size` × `size` pixels; models/initialise.py draws its initial weights."""
    match config:
        case RecurrentCaptionConfig():
            return RecurrentDecoder(config, ConvolvedImage(config.channels, size, config.dropout), vocab)
        case TransformerCaptionConfig():
            return TransformerDecoder(config, ImageTransformer(config, size), vocab)


def _encoded(cell_BSm: Tensor) -> EncodedSource:
    """Every image has all its cells."""
    B, S, _ = cell_BSm.shape
    return EncodedSource(cell_BSm, torch.full((B,), S, device=cell_BSm.device))
