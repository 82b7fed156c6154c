"""Extractive question answering: where an answer begins and ends in its context, from an encoder's vectors. Letters: B batch, T
time, d width."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firth.layers.pool import Transform
from firth.models.encoder import Encoder, encoder
from firth.models.encoder_config import RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.readouts import LabelReadout, label_transform

QUESTION, CONTEXT = 0, 1  # segments, for an encoder that has two or more
SpanEncoderConfig = RecurrentEncoderConfig | TransformerEncoderConfig  # a mean of word vectors has no positions


class QuestionAnswerer(LabelReadout):
    """p(start = i) = softmax_i(w_s·x_i + b_s),  p(end = j) = softmax_j(w_e·x_j + b_e),  i and j in the context
    (Devlin et al. 2019, §4.2)."""

    def __init__(
        self, encoder: Encoder, vocab: int, dropout: float, segments: int = 0, transform: Transform | None = None
    ) -> None:
        super().__init__(encoder, vocab)
        self.dropout, self.segments = dropout, segments
        self.transform = transform
        self.output = nn.Linear(encoder.width, 2)

    def forward(self, token_BT: Tensor, length_B: Tensor, first_B: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of both ends, −∞ outside the context, which begins at first_B and ends before the last token of a row, <eos>."""
        place_T = torch.arange(token_BT.shape[1], device=token_BT.device)
        behind_BT = place_T >= first_B[:, None]
        segment_BT = torch.where(behind_BT, CONTEXT, QUESTION) if self.segments > 1 else None
        x_BTd = self.encoder(token_BT, length_B, segment_BT)
        ends_BT2 = self.scores(x_BTd)
        inside_BT = behind_BT & (place_T < length_B[:, None] - 1)
        start_BT, end_BT = ends_BT2.masked_fill(~inside_BT.unsqueeze(-1), -torch.inf).unbind(-1)
        return start_BT, end_BT


def question_answerer(config: SpanEncoderConfig, vocab: int) -> QuestionAnswerer:
    """The module, with weights not yet drawn; see models/initialise.py."""
    segments = getattr(config, "segments", 0)
    return QuestionAnswerer(encoder(config, vocab), vocab, config.dropout, segments, label_transform(config))
