"""Sequence to sequence: p(y | x) = Π p(y_t | y_<t, x), x a text. Encoders of texts; the decoders are in conditional.py.

`encode(source_BS, length_B)` reads the source. Source and target end with <eos>; padding after the source's length has no effect.

Letters: B batch, S source, T target, V vocabulary, e embedding width, m width of the memory, d width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.recurrent import Recurrent
from firth.models.conditional import ConditionalDecoder, EncodedSource, RecurrentDecoder, TransformerDecoder
from firth.models.config import TransformerSettings
from firth.models.prefix import PrefixDecoder
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig
from firth.models.stack import Stack


class RecurrentText(Recurrent):
    """Recurrent layers over the embedded source; `reverse`: from its last token to its first (Sutskever et al. 2014, §3.3).

    A GRU has torch's reset: only the decoder's was published with the other."""

    reads_text, recurrent = True, True

    def __init__(self, config: RecurrentSeq2SeqConfig) -> None:
        bidirectional, inputs = config.encoder_bidirectional, config.embedding_width
        super().__init__(config.kind, inputs, config.width, config.depth, dropout=config.dropout, bidirectional=bidirectional)
        self.memory_width, self.reverse = config.width * self.directions, config.reverse

    def encode(self, source_BS: Tensor, length_B: Tensor, embedding: nn.Embedding) -> EncodedSource:
        x_BSe: Tensor = embedding(reversed_rows(source_BS, length_B) if self.reverse else source_BS)
        if self.dropout:
            x_BSe = F.dropout(x_BSe, self.dropout, self.training)
        memory_BSm, last = self(x_BSe, length_B=length_B)
        return EncodedSource(memory_BSm, length_B, last)


class TransformerText(Stack):
    """Bidirectional blocks over the embedded source (Vaswani et al. 2017)."""

    reads_text, recurrent = True, False

    def __init__(self, config: TransformerSettings, depth: int) -> None:
        super().__init__(config, depth, bidirectional=True)
        self.memory_width = config.width

    def encode(self, source_BS: Tensor, length_B: Tensor, embedding: nn.Embedding) -> EncodedSource:
        x_BSd, _ = self.run_blocks(self.embed_positions(embedding(source_BS), 0), mask.lengths(length_B))
        return EncodedSource(x_BSd, length_B)


def seq2seq(config: Seq2SeqConfig, source_vocab: int, vocab: int) -> ConditionalDecoder:
    """The module; models/initialise.py draws its initial weights."""
    if isinstance(config, PrefixConfig):
        return PrefixDecoder(config, vocab)
    own = None if config.shared else nn.Embedding(source_vocab, config.embedding_width)
    if isinstance(config, RecurrentSeq2SeqConfig):
        return RecurrentDecoder(config, RecurrentText(config), vocab, own)
    return TransformerDecoder(config, TransformerText(config, config.encoder_depth or config.depth), vocab, own)


def reversed_rows(token_BS: Tensor, length_B: Tensor) -> Tensor:
    """Reverse the first length_B[b] tokens of each row and leave the padding (Sutskever et al. 2014, §3.3)."""
    place_S = torch.arange(token_BS.shape[1], device=token_BS.device)
    back_BS = length_B[:, None] - 1 - place_S
    return token_BS.gather(1, torch.where(back_BS >= 0, back_BS, place_S))
