"""Sequence to sequence: p(y | x) = Π p(y_t | y_<t, x).

The seam is `encode(source_BS, length_B) → memory`, and then `teach(token_BT, memory)` for training, the whole target at once, or
`start(memory) → state` and `step` for decoding, as with every decoder. A state answers `select(rows)`, for beams.
Both sides end with <eos>, and the decoder is first given <eos>; a source is padded behind its length, which changes nothing.

Letters: B batch, S source, T target, V vocabulary, e embedding width, m width of the memory, d width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.attentive_recurrence import AttentiveRecurrent, Memory
from firth.layers.cross_attention import Source
from firth.layers.recurrent import Recurrent
from firth.layers.state import AttentionState, RecurrentState, zeros
from firth.models.decoder import Decoder
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.models.stack import Stack


class Seq2Seq(Decoder):
    """What decoding, scoring and training rely on."""

    carries = False
    source_vocab: int
    own_embedding: nn.Embedding | None  # of the source, where it is not that of the target

    @property
    def source_embedding(self) -> nn.Embedding:
        return self.embedding if self.own_embedding is None else self.own_embedding

    @abstractmethod
    def encode(self, source_BS: Tensor, length_B: Tensor) -> Any:
        """All that the decoder will know of the source."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def teach(self, token_BT: Tensor, memory: Any) -> Tensor:
        """What the output layer reads after each of all tokens of the target."""
        return self.hidden(token_BT, self.start(memory))[0]

    def forward(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """logits_BTV after each token of the target so far."""
        return self.readout(self.teach(token_BT, self.encode(source_BS, length_B)))


class Encoded(NamedTuple):
    """What a recurrent encoder leaves: its outputs, zero after the end of a row, and the first state of the decoder."""

    memory_BSm: Tensor
    length_B: Tensor
    first: RecurrentState
    last_Bm: Tensor  # the outputs at the ends: the last forwards, and the first backwards


@dataclass(frozen=True, eq=False)
class Written:
    """What the decoder remembers of what it has written, and of the source."""

    recurrent: RecurrentState
    memory: Memory | None  # where there is attention
    context_Bm: Tensor | None  # where the same vector is fed to every step
    share: int = 1  # rows that look at one memory

    def select(self, rows: Tensor) -> Written:
        memory, share = self.memory, self.share
        if memory is not None:
            text_A, share = texts_of(rows, share)
            memory = memory if _all_in_order(text_A, len(memory.length_B)) else memory.select(text_A)
        context_Bm = None if self.context_Bm is None else self.context_Bm[rows]
        return Written(self.recurrent.select(rows), memory, context_Bm, share)


class RecurrentSeq2Seq(Seq2Seq):
    """attention = "none": the decoder starts from the encoder's last state and knows nothing else (Sutskever et al. 2014), or,
    with `feed`, is also given the encoder's last output in every step (Cho et al. 2014).

    Otherwise RNNsearch (Bahdanau et al. 2015): h_0 = tanh(W_s ←h_1), the decoder looks at all outputs before every step, and
    ŷ_t = softmax(W_h h_t + W_e e_t + W_c c_t). Levels above the first are ordinary ones."""

    context = None
    embedding_setting = "model.embedding"

    def __init__(self, config: RecurrentSeq2SeqConfig, source_vocab: int, vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.vocab = config, source_vocab, vocab
        inputs, width = config.embedding or config.width, config.width
        self.embedding_std = inputs**-0.5 if config.tied else 1.0
        self.embedding = nn.Embedding(vocab, inputs)
        self.own_embedding = None if config.shared else nn.Embedding(source_vocab, inputs)
        self.encoder = Recurrent(
            config.kind, inputs, width, config.depth, dropout=config.dropout, bidirectional=config.both_ways
        )  # its GRU is torch's: only the decoder's is published otherwise
        memory = width * self.encoder.directions
        attentive = config.attention != "none"
        self.first = nn.Linear(width, config.depth * width) if attentive else None
        self.attentive: AttentiveRecurrent | None = None
        self.recurrent: Recurrent | None = None
        if config.attention != "none":
            self.attentive = AttentiveRecurrent(
                config.kind, inputs, memory, width, score=config.attention, reset=config.decoder_reset
            )
        fed = inputs + memory if config.feed else inputs
        levels = config.depth - 1 if attentive else config.depth
        if levels:
            self.recurrent = Recurrent(
                config.kind,
                width if attentive else fed,
                width,
                levels,
                dropout=config.dropout,
                reset=config.decoder_reset,
            )
        features = width + inputs + memory if attentive or config.feed else width
        self.projection = nn.Linear(features, inputs, bias=False) if config.tied and features != inputs else None
        self.output = None if config.tied else nn.Linear(features, vocab)
        self.output_bias = nn.Parameter(torch.zeros(vocab)) if config.tied else None

    def encode(self, source_BS: Tensor, length_B: Tensor) -> Encoded:
        if self.config.reverse:
            source_BS = reversed_rows(source_BS, length_B)
        x_BSe = self._drop(self.source_embedding(source_BS))
        memory_BSm, last = self.encoder(x_BSe, length_B=length_B)
        last_Bm = last.h_LBd[-self.encoder.directions :].transpose(0, 1).flatten(1)
        return Encoded(memory_BSm, length_B, self._first(last), last_Bm)

    def start(self, memory: Encoded) -> Written:
        attended = self.attentive.remember(memory.memory_BSm, memory.length_B) if self.attentive is not None else None
        return Written(memory.first, attended, memory.last_Bm if self.config.feed else None)

    def hidden(self, token_BT: Tensor, state: Written) -> tuple[Tensor, Written]:  # type: ignore[override]
        e_BTe = self._drop(self.embedding(token_BT))
        x_BTd, context_BTm, recurrent = self._levels(e_BTe, state)
        if context_BTm is not None:
            x_BTd = torch.cat((x_BTd, e_BTe, context_BTm), dim=-1)
        x_BTd = self._drop(x_BTd)
        if self.projection is not None:
            x_BTd = self.projection(x_BTd)
        return x_BTd, Written(recurrent, state.memory, state.context_Bm, state.share)

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return (self.embedding.weight, self.output_bias) if self.output is None else (self.output.weight, self.output.bias)

    def alignment(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """α_BTS: what each step looked at before it wrote."""
        assert self.attentive is not None
        state = self.start(self.encode(source_BS, length_B))
        assert state.memory is not None
        first, _ = self._split(state.recurrent)
        h_BTd, _, _ = self.attentive(self._drop(self.embedding(token_BT)), state.memory, first)
        before_BTd = torch.cat((first.h_LBd.transpose(0, 1), h_BTd[:, :-1]), dim=1)
        return self.attentive.alignment(before_BTd, state.memory)

    def _levels(self, e_BTe: Tensor, state: Written) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """The top level's h, the context of each step, and the state of all levels."""
        if self.attentive is None:
            assert self.recurrent is not None
            context_BTm = None
            if state.context_Bm is not None:
                context_BTm = state.context_Bm.unsqueeze(1).expand(-1, e_BTe.shape[1], -1)
                e_BTe = torch.cat((e_BTe, context_BTm), dim=-1)
            x_BTd, recurrent = self.recurrent(e_BTe, state.recurrent)
            return x_BTd, context_BTm, recurrent
        assert state.memory is not None
        first, above = self._split(state.recurrent)
        x_BTd, context_BTm, first = self.attentive(e_BTe, state.memory, first)
        if self.recurrent is None or above is None:
            return x_BTd, context_BTm, first
        x_BTd, above = self.recurrent(self._drop(x_BTd), above)
        return x_BTd, context_BTm, _stacked(first, above)

    def _split(self, state: RecurrentState) -> tuple[RecurrentState, RecurrentState | None]:
        """The first level, and those above it."""
        first, above = (RecurrentState(state.h_LBd[rows], _levels_of(state.c_LBd, rows)) for rows in (slice(1), slice(1, None)))
        return first, above if len(above.h_LBd) else None

    def _first(self, last: RecurrentState) -> RecurrentState:
        if self.first is None:
            return last
        h_LBd = torch.stack(torch.tanh(self.first(last.h_LBd[-1])).chunk(self.config.depth, dim=-1))
        c_LBd = zeros(self.config.depth, h_LBd.shape[1], self.config.width, h_LBd) if self.config.kind == "lstm" else None
        return RecurrentState(h_LBd, c_LBd)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training) if self.config.dropout else x


@dataclass(frozen=True, eq=False)
class Translated:
    """What a Transformer's decoder has written, and the source."""

    own: AttentionState
    sources: tuple[Source, ...]
    share: int = 1  # rows that look at one source

    def select(self, rows: Tensor) -> Translated:
        text_A, share = texts_of(rows, self.share)
        sources = self.sources
        if not _all_in_order(text_A, len(sources[0].length_B)):
            sources = tuple(source.select(text_A) for source in sources)
        return Translated(self.own.select(rows), sources, share)


class TransformerSeq2Seq(Seq2Seq):
    """An encoder that reads both ways and a decoder that looks back and at the encoder's outputs (Vaswani et al. 2017)."""

    embedding_setting = "model.width"

    def __init__(self, config: TransformerSeq2SeqConfig, source_vocab: int, vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.vocab, self.context = config, source_vocab, vocab, config.context
        self.embedding_std = config.width**-0.5
        self.embedding = nn.Embedding(vocab, config.width)
        self.own_embedding = None if config.shared else nn.Embedding(source_vocab, config.width)
        self.encoder = Stack(config, config.encoder_depth or config.depth, bidirectional=True)
        self.decoder = Stack(config, config.depth, cross=True)
        self.output = None if config.tied else nn.Linear(config.width, vocab, bias=config.bias)

    def encode(self, source_BS: Tensor, length_B: Tensor) -> tuple[Source, ...]:
        """Keys and values for each layer of the decoder."""
        x_BSd, _ = self.encoder.run_blocks(
            self.encoder.embed_positions(self.source_embedding(source_BS), 0), mask.lengths(length_B)
        )
        return tuple(block.cross.remember(x_BSd, length_B) for block in self.decoder.blocks)  # type: ignore[union-attr, operator]

    def start(self, memory: tuple[Source, ...]) -> Translated:
        return Translated(AttentionState.empty(self.config.depth), memory)

    def teach(self, token_BT: Tensor, memory: tuple[Source, ...]) -> Tensor:
        x_BTd, _ = self.decoder.run_blocks(self.decoder.embed_positions(self.embedding(token_BT), 0), mask.CAUSAL, None, memory)
        return x_BTd

    def hidden(self, token_BT: Tensor, state: Translated) -> tuple[Tensor, Translated]:  # type: ignore[override]
        x_BTd = self.decoder.embed_positions(self.embedding(token_BT), state.own.length)
        x_BTd, own = self.decoder.run_blocks(x_BTd, mask.CAUSAL, state.own, state.sources)
        assert own is not None
        return x_BTd, Translated(own, state.sources, state.share)

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return (self.embedding.weight, None) if self.output is None else (self.output.weight, self.output.bias)


def seq2seq(config: Seq2SeqConfig, source_vocab: int, vocab: int) -> Seq2Seq:
    """The module, with weights not yet drawn; see models/initialise.py."""
    match config:
        case RecurrentSeq2SeqConfig():
            return RecurrentSeq2Seq(config, source_vocab, vocab)
        case TransformerSeq2SeqConfig():
            return TransformerSeq2Seq(config, source_vocab, vocab)
        case PrefixConfig():
            from firth.models.prefix import PrefixDecoder  # it is one of these, and defined by them

            return PrefixDecoder(config, vocab)


def texts_of(rows: Tensor, share: int) -> tuple[Tensor, int]:
    """Which sources the chosen rows look at, where `share` rows each did before, and how many of them look at each now.

    Hypotheses of one text stand next to each other and are equally many in all texts, so a beam needs each source once, and
    changes them only when a text is done. Rows chosen otherwise get a source each."""
    text_R = rows // share
    text_A, count_A = torch.unique_consecutive(text_R, return_counts=True)
    counts = set(count_A.tolist())
    return (text_A, counts.pop()) if len(counts) == 1 else (text_R, 1)


def _all_in_order(text_A: Tensor, texts: int) -> bool:
    return len(text_A) == texts and text_A.tolist() == list(range(texts))


def reversed_rows(token_BS: Tensor, length_B: Tensor) -> Tensor:
    """The first length_B[b] tokens of each row, last first; padding stays behind them (Sutskever et al. 2014, §3.3)."""
    place_S = torch.arange(token_BS.shape[1], device=token_BS.device)
    back_BS = length_B[:, None] - 1 - place_S
    return token_BS.gather(1, torch.where(back_BS >= 0, back_BS, place_S))


def _levels_of(c_LBd: Tensor | None, rows: slice) -> Tensor | None:
    return None if c_LBd is None else c_LBd[rows]


def _stacked(first: RecurrentState, above: RecurrentState) -> RecurrentState:
    h_LBd = torch.cat((first.h_LBd, above.h_LBd))
    if first.c_LBd is None or above.c_LBd is None:
        return RecurrentState(h_LBd)
    return RecurrentState(h_LBd, torch.cat((first.c_LBd, above.c_LBd)))
