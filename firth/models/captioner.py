"""Captions: p(y | image) = Π p(y_t | y_<t, cells of the image). The decoders are those of sequence to sequence (conditional.py);
only what they attend to is another.

Letters: B batch, H, W height and width in pixels, C channels, S cells, T caption, V vocabulary, m width of a cell, d width.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.cross_attention import Source
from firth.layers.image_cells import Convolutions, ImageCells, Patches
from firth.layers.position import NoPositionConfig
from firth.layers.recurrent import cell_class
from firth.layers.state import RecurrentState
from firth.models.caption_config import CaptionModelConfig, RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.conditional import ConditionalDecoder, Encoded, RecurrentDecoder, TransformerDecoder
from firth.models.decoder import vocabulary_output
from firth.models.embedding_config import TransformerEmbeddingConfig
from firth.models.stack import Stack


class Captioner(ConditionalDecoder):
    """A decoder whose memory is the cells of an image; images are bytes, image_BHWC."""

    size: int  # side of its images in pixels
    grid: tuple[int, int]  # rows and columns of cells

    @abstractmethod
    def encode(self, image_BHWC: Tensor) -> Any:
        """Everything the decoder will know about the image."""

    def forward(self, image_BHWC: Tensor, token_BT: Tensor) -> Tensor:
        """logits_BTV after each token of the caption so far."""
        return self.readout(self.teacher_forced(token_BT, self.encode(image_BHWC)))


class RecurrentCaptioner(RecurrentDecoder, Captioner):
    """Show, attend and tell (Xu et al. 2015): convolutions, and an LSTM that attends to their cells a_s before every step. Its
    state starts from the mean cell: h_0 = tanh(W_h ā + b_h), c_0 = tanh(W_c ā + b_c)  (§3.1.2)."""

    config: RecurrentCaptionConfig

    def __init__(self, config: RecurrentCaptionConfig, size: int, vocab: int) -> None:
        super().__init__()
        self.config, self.size, self.vocab = config, size, vocab
        inputs = config.embedding_width
        self.embedding_std = inputs**-0.5 if config.tied else 1.0
        self.embedding = nn.Embedding(vocab, inputs)
        self.encoder = ImageCells(Convolutions(config.channels, size))
        self.grid = self.encoder.grid
        self._parts = len(cell_class(config.kind).state)  # h, and c of an LSTM
        self.first = nn.Linear(self.encoder.width, self._parts * config.depth * config.width)
        self._add_decoder(self.encoder.width)

    def encode(self, image_BHWC: Tensor) -> Encoded:
        memory_BSm = self._drop(self.encoder(image_BHWC))
        mean_Bm = memory_BSm.mean(1)
        layers = torch.tanh(self.first(mean_Bm)).chunk(self._parts * self.config.depth, dim=-1)
        parts = (torch.stack(layers[n * self.config.depth : (n + 1) * self.config.depth]) for n in range(self._parts))
        return Encoded(memory_BSm, _lengths(memory_BSm), RecurrentState(*parts), mean_Bm)


class ImageTransformer(nn.Module):
    """Cells, and Transformer layers in which each cell attends to all others."""

    def __init__(self, config: TransformerCaptionConfig, size: int) -> None:
        super().__init__()
        patches = config.encoder == "patch"
        self.cells = ImageCells(Patches(config.patch, config.width, size) if patches else Convolutions(config.channels, size))
        same = self.cells.width == config.width
        self.widen = None if same else nn.Linear(self.cells.width, config.width, bias=False)
        # The cells have places already: the scheme of the decoder, which counts along a text, does not apply to a grid.
        plain = dataclasses.replace(
            config,
            position=NoPositionConfig(),
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


class TransformerCaptioner(TransformerDecoder, Captioner):
    """A Transformer decoder that attends to the cells of an image, themselves encoded by a Transformer (Dosovitskiy et al.
    2021)."""

    config: TransformerCaptionConfig

    def __init__(self, config: TransformerCaptionConfig, size: int, vocab: int) -> None:
        super().__init__()
        self.config, self.size, self.vocab, self.context = config, size, vocab, config.context
        self.embedding_std = config.width**-0.5
        self.embedding = nn.Embedding(vocab, config.width)
        self.encoder = ImageTransformer(config, size)
        self.grid = self.encoder.cells.grid
        self.decoder = Stack(config, config.depth, cross=True)
        self.output, self.output_bias = vocabulary_output(config, vocab)

    def encode(self, image_BHWC: Tensor) -> tuple[Source, ...]:
        """Keys and values for each layer of the decoder."""
        x_BSd = self.encoder(image_BHWC)
        return self.remember(x_BSd, _lengths(x_BSd))


def captioner(config: CaptionModelConfig, size: int, vocab: int) -> Captioner:
    """The module for images of `size` × `size` pixels; models/initialise.py draws its initial weights."""
    match config:
        case RecurrentCaptionConfig():
            return RecurrentCaptioner(config, size, vocab)
        case TransformerCaptionConfig():
            return TransformerCaptioner(config, size, vocab)


def _lengths(x_BSd: Tensor) -> Tensor:
    """Every image has all its cells."""
    B, S, _ = x_BSd.shape
    return torch.full((B,), S, device=x_BSd.device)
