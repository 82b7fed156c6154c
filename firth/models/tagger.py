"""Tagging: a tag for each word, from an encoder's vectors of its tokens. Letters: B batch, T tokens, W words, K symbols of a
spelling, d width, e width of the embedding, c width of the symbols, F features, C tags, M words without padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firth.layers.pool import Transform
from firth.models.encoder import EmbeddingEncoder, encoder
from firth.models.encoder_config import AverageConfig, EncoderConfig
from firth.models.readouts import LabelReadout, label_transform
from firth.models.tag_readouts import TagReadoutKind, tag_readout
from firth.text.batches.sentences import SYMBOLS

_WINDOW = 3  # bytes, including the ends of the word: "un", "ed" with the end, "ing"
_FEATURES = 4  # per element of the vector of a byte


class SpellingEncoder(nn.Module):
    """A vector for a word from its spelling:  P max_k (A [s_k; s_k+1; s_k+2] + a) + b,  s_k the vector of its k-th byte.

    A convolution with max pooling (as in Ma & Hovy 2016): it computes all words and positions at once, unlike an LSTM over the
    bytes. Both ends of a word are symbols of their own, so that a suffix differs from a syllable.
    """

    def __init__(self, characters: int, width: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, characters)
        self.windows = nn.Linear(_WINDOW * characters, _FEATURES * characters)
        self.features = nn.Linear(_FEATURES * characters, width)

    def forward(self, symbol_MK: Tensor) -> Tensor:
        x_MKwc = self.symbols(symbol_MK).unfold(1, _WINDOW, 1).mT
        feature_MKF = self.windows(x_MKwc.flatten(2))
        behind_MK = symbol_MK[:, _WINDOW - 1 :] == 0  # a window that overlaps the padding
        feature_MF = feature_MKF.masked_fill(behind_MK.unsqueeze(-1), -torch.inf).amax(1)
        x_Me: Tensor = self.features(feature_MF)
        return x_Me


class Tagger(LabelReadout):
    """logits_w = W dropout(x_t) + b, x_t the encoder's vector of the first token of word w; `readout` makes tags of them.

    With a spelling, the encoder's input is E[token] + spelling(w) at the first token of each word and E[token] at the others.
    """

    encoder: EmbeddingEncoder

    def __init__(
        self,
        encoder: EmbeddingEncoder,
        vocab: int,
        tags: int,
        dropout: float,
        characters: int = 0,
        readout: TagReadoutKind = "softmax",
        transform: Transform | None = None,
    ) -> None:
        super().__init__(encoder, vocab)
        self.tags, self.dropout = tags, dropout
        self.readout = tag_readout(readout, tags)
        self.spelling = SpellingEncoder(characters, encoder.embedding.embedding_dim) if characters else None
        self.transform = transform
        self.output = nn.Linear(encoder.width, tags)

    def forward(self, token_BT: Tensor, length_B: Tensor, first_BW: Tensor, symbol_BWK: Tensor) -> Tensor:
        """Logits_BWC; for padding words they are those of the first token and carry no meaning."""
        x_BTe = self.encoder.embedded(token_BT)
        if self.spelling is not None:
            row_M, word_M = (symbol_BWK[:, :, 0] != 0).nonzero(as_tuple=True)
            spelled_Me = self.spelling(symbol_BWK[row_M, word_M]).to(x_BTe.dtype)
            x_BTe = x_BTe.index_put((row_M, first_BW[row_M, word_M]), spelled_Me, accumulate=True)
        x_BTd = self.encoder.read(x_BTe, length_B)
        x_BWd = x_BTd.gather(1, first_BW.unsqueeze(-1).expand(-1, -1, x_BTd.shape[-1]))
        return self.scores(x_BWd)


def tagger(config: EncoderConfig, vocab: int, tags: int) -> Tagger:
    """The module, with weights not yet drawn; see models/initialise.py."""
    characters = 0 if isinstance(config, AverageConfig) else config.characters
    return Tagger(encoder(config, vocab), vocab, tags, config.dropout, characters, config.readout, label_transform(config))
