"""Tagging: a tag for each word, from an encoder's vectors of its tokens. Letters: B batch, T tokens, W words, K symbols of a
spelling, d width, e width of the embedding, f width of a spelling beside it, C tags, M words without padding."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.pool import Transform
from firth.models.encoder import EmbeddingEncoder, encoder
from firth.models.encoder_config import AverageConfig, EncoderConfig
from firth.models.readouts import LabelReadout, label_transform
from firth.models.spelling import SpellingEncoder
from firth.models.tag_readouts import TagReadoutKind, tag_readout


class Tagger(LabelReadout):
    """logits_w = W dropout(x_t) + b, x_t the encoder's vector of the first token of word w; `readout` makes tags of them.

    With a spelling, the encoder's input is E[token] + spelling(w) at the first token of each word and E[token] at the others; or,
    if its features are concatenated, [E[token]; spelling(w)] and [E[token]; 0].
    """

    encoder: EmbeddingEncoder

    def __init__(
        self,
        encoder: EmbeddingEncoder,
        vocab: int,
        tags: int,
        dropout: float,
        spelling: SpellingEncoder | None = None,
        readout: TagReadoutKind = "softmax",
        transform: Transform | None = None,
    ) -> None:
        super().__init__(encoder, vocab)
        self.tags, self.dropout = tags, dropout
        self.readout = tag_readout(readout, tags)
        self.spelling = spelling
        self.transform = transform
        self.output = nn.Linear(encoder.width, tags)

    def forward(self, token_BT: Tensor, length_B: Tensor, first_BW: Tensor, symbol_BWK: Tensor) -> Tensor:
        """Logits_BWC; for padding words they are those of the first token and carry no meaning."""
        x_BTe = self.encoder.embedded(token_BT)
        if self.spelling is not None:
            row_M, word_M = (symbol_BWK[:, :, 0] != 0).nonzero(as_tuple=True)
            spelled_Me = self.spelling(symbol_BWK[row_M, word_M]).to(x_BTe.dtype)
            if self.spelling.features is None:  # into the places behind the embedding
                x_BTe, spelled_Me = F.pad(x_BTe, (0, spelled_Me.shape[1])), F.pad(spelled_Me, (x_BTe.shape[2], 0))
            x_BTe = x_BTe.index_put((row_M, first_BW[row_M, word_M]), spelled_Me, accumulate=True)
        x_BTd = self.encoder.read(x_BTe, length_B)
        x_BWd = x_BTd.gather(1, first_BW.unsqueeze(-1).expand(-1, -1, x_BTd.shape[-1]))
        return self.scores(x_BWd)


def tagger(config: EncoderConfig, vocab: int, tags: int) -> Tagger:
    """The module, with weights not yet drawn; see models/initialise.py."""
    reader = encoder(config, vocab)
    spelling = None if isinstance(config, AverageConfig) else config.spelling.encoder(reader.embedding.embedding_dim)
    return Tagger(reader, vocab, tags, config.dropout, spelling, config.readout, label_transform(config))
