"""Sequence to sequence: p(y | x) = Π p(y_t | y_<t, x).

The interface is `encode(source_BS, length_B) → memory`, then `teacher_forced(token_BT, memory)` for training, the whole target at
once, or `start(memory) → state` and `step` for decoding, as with every decoder. States have `select(rows)`, for beam search.
Source and target end with <eos>, and <eos> is the decoder's first input; padding after the source's length has no effect.

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
from firth.layers.attentive_recurrence import AttentionalState, AttentiveRecurrent, Memory
from firth.layers.cross_attention import Source
from firth.layers.recurrent import Recurrent
from firth.layers.state import AttentionState, RecurrentState
from firth.models.decoder import Decoder
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.models.stack import Stack


class Seq2Seq(Decoder):
    """The interface that decoding, scoring and training use."""

    carries = False
    source_vocab: int
    own_embedding: nn.Embedding | None  # of the source; None if it shares the target's

    @property
    def source_embedding(self) -> nn.Embedding:
        return self.embedding if self.own_embedding is None else self.own_embedding

    @abstractmethod
    def encode(self, source_BS: Tensor, length_B: Tensor) -> Any:
        """Everything the decoder will know about the source."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def teacher_forced(self, token_BT: Tensor, memory: Any) -> Tensor:
        """The decoder's outputs after every token of the reference target, before the output layer."""
        return self.hidden(token_BT, self.start(memory))[0]

    def forward(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """logits_BTV after each token of the target so far."""
        return self.readout(self.teacher_forced(token_BT, self.encode(source_BS, length_B)))


class Encoded(NamedTuple):
    """A recurrent encoder's outputs, zero past the end of a row, and the decoder's initial state."""

    memory_BSm: Tensor
    length_B: Tensor
    first: RecurrentState
    last_Bm: Tensor  # the final output of each direction: at the last token forwards, at the first backwards


@dataclass(frozen=True, eq=False)
class DecoderState:
    """A recurrent decoder's state, and what it keeps of the source."""

    recurrent: RecurrentState
    memory: Memory | None  # with attention
    context_Bm: Tensor | None  # with feed_context: the vector that enters every step
    share: int = 1  # rows that share one memory
    fed_Bd: Tensor | None = None  # with input_feeding: h̃ of the last step

    def select(self, rows: Tensor) -> DecoderState:
        memory, share = self.memory, self.share
        if memory is not None:
            text_A, share = texts_of(rows, share)
            memory = memory if _all_in_order(text_A, len(memory.length_B)) else memory.select(text_A)
        context_Bm, fed_Bd = (None if part is None else part[rows] for part in (self.context_Bm, self.fed_Bd))
        return DecoderState(self.recurrent.select(rows), memory, context_Bm, share, fed_Bd)


class RecurrentSeq2Seq(Seq2Seq):
    """attention = "none": the decoder starts from the encoder's last state and sees nothing else of the source (Sutskever et al.
    2014); with `feed_context`, the encoder's last output also enters every step (Cho et al. 2014).

    decoder = "bahdanau" is RNNsearch (Bahdanau et al. 2015): h_0 = tanh(W_s ←h_1), the decoder attends to all of the encoder's
    outputs before every step, and ŷ_t = softmax(W_h h_t + W_e e_t + W_c c_t). Layers above the first have no attention.

    decoder = "luong" (Luong et al. 2015): the same h_0, the top layer's h_t attends after every step, and ŷ_t = softmax(W h̃_t)
    with h̃_t = tanh(W_c [c_t; h_t]). With `input_feeding`, h̃_{t−1} is an input of step t, beside e_t."""

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
            config.kind, inputs, width, config.depth, dropout=config.dropout, bidirectional=config.encoder_bidirectional
        )  # a GRU with torch's reset: only the decoder's was published with the other
        memory = width * self.encoder.directions
        luong, attentive = config.decoder == "luong", config.attention != "none" and config.decoder == "bahdanau"
        self.first = nn.Linear(width, config.depth * width) if config.attention != "none" else None
        self.attentive: AttentiveRecurrent | None = None
        self.attentional: AttentionalState | None = None
        self.recurrent: Recurrent | None = None
        if config.attention != "none":
            if luong:
                self.attentional = AttentionalState(memory, width, config.attention)
            else:
                self.attentive = AttentiveRecurrent(
                    config.kind, inputs, memory, width, score=config.attention, reset=config.decoder_reset
                )
        fed = inputs + (memory if config.feed_context else 0) + (width if config.input_feeding else 0)
        layers = config.depth - 1 if attentive else config.depth
        if layers:
            self.recurrent = Recurrent(
                config.kind,
                width if attentive else fed,
                width,
                layers,
                dropout=config.dropout,
                reset=config.decoder_reset,
            )
        features = width + inputs + memory if attentive or config.feed_context else width
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

    def start(self, memory: Encoded) -> DecoderState:
        attention = self.attentional or self.attentive
        attended = attention.remember(memory.memory_BSm, memory.length_B) if attention is not None else None
        fed_Bd = torch.zeros_like(memory.first.h_LBd[0]) if self.config.input_feeding else None
        return DecoderState(memory.first, attended, memory.last_Bm if self.config.feed_context else None, fed_Bd=fed_Bd)

    def hidden(self, token_BT: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:  # type: ignore[override]
        e_BTe = self._drop(self.embedding(token_BT))
        fed_Bd = None
        if self.attentional is not None:
            _, x_BTd, recurrent = self._attentional(e_BTe, state)
            fed_Bd = x_BTd[:, -1] if self.config.input_feeding else None
        else:
            x_BTd, context_BTm, recurrent = self._layers(e_BTe, state)
            if context_BTm is not None:
                x_BTd = torch.cat((x_BTd, e_BTe, context_BTm), dim=-1)
        x_BTd = self._drop(x_BTd)
        if self.projection is not None:
            x_BTd = self.projection(x_BTd)
        return x_BTd, DecoderState(recurrent, state.memory, state.context_Bm, state.share, fed_Bd)

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return (self.embedding.weight, self.output_bias) if self.output is None else (self.output.weight, self.output.bias)

    def alignment(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """α_BTS: the attention weights of each step, computed before it predicts."""
        state = self.start(self.encode(source_BS, length_B))
        assert state.memory is not None
        e_BTe = self._drop(self.embedding(token_BT))
        if self.attentional is not None:
            return self.attentional.alignment(self._attentional(e_BTe, state)[0], state.memory)
        assert self.attentive is not None
        first, _ = self._split(state.recurrent)
        h_BTd, _, _ = self.attentive(e_BTe, state.memory, first)
        before_BTd = torch.cat((first.h_LBd.transpose(0, 1), h_BTd[:, :-1]), dim=1)
        return self.attentive.alignment(before_BTd, state.memory)

    def _attentional(self, e_BTe: Tensor, state: DecoderState) -> tuple[Tensor, Tensor, RecurrentState]:
        """The top layer's h_BTd, h̃_BTd and the state of all layers: at once, because attention does not change h, or step by step
        if h̃ is fed to the next step."""
        assert self.attentional is not None
        assert self.recurrent is not None
        assert state.memory is not None
        if state.fed_Bd is None:
            h_BTd, recurrent = self.recurrent(e_BTe, state.recurrent)
            return h_BTd, self.attentional(h_BTd, state.memory), recurrent
        recurrent, fed_B1d, hidden, combined = state.recurrent, state.fed_Bd.unsqueeze(1), [], []
        for e_Be in e_BTe.unbind(1):
            h_B1d, recurrent = self.recurrent(torch.cat((e_Be.unsqueeze(1), fed_B1d), dim=-1), recurrent)
            fed_B1d = self.attentional(h_B1d, state.memory)
            hidden.append(h_B1d)
            combined.append(fed_B1d)
        return torch.cat(hidden, dim=1), torch.cat(combined, dim=1), recurrent

    def _layers(self, e_BTe: Tensor, state: DecoderState) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """The top layer's h, the context of each step, and the state of all layers."""
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
        return x_BTd, context_BTm, RecurrentState(*(torch.cat(part) for part in zip(first.parts, above.parts, strict=True)))

    def _split(self, state: RecurrentState) -> tuple[RecurrentState, RecurrentState | None]:
        """The states of the first layer and of those above it."""
        first, above = (RecurrentState(*(part[rows] for part in state.parts)) for rows in (slice(1), slice(1, None)))
        return first, above if len(above.h_LBd) else None

    def _first(self, last: RecurrentState) -> RecurrentState:
        if self.first is None:
            return last
        h_LBd = torch.stack(torch.tanh(self.first(last.h_LBd[-1])).chunk(self.config.depth, dim=-1))
        return RecurrentState(h_LBd, *(torch.zeros_like(h_LBd) for _ in last.parts[1:]))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training) if self.config.dropout else x


@dataclass(frozen=True, eq=False)
class Translated:
    """A Transformer decoder's state: its own keys and values, and the source's."""

    own: AttentionState
    sources: tuple[Source, ...]
    share: int = 1  # rows that share one source

    def select(self, rows: Tensor) -> Translated:
        text_A, share = texts_of(rows, self.share)
        sources = self.sources
        if not _all_in_order(text_A, len(sources[0].length_B)):
            sources = tuple(source.select(text_A) for source in sources)
        return Translated(self.own.select(rows), sources, share)


class TransformerSeq2Seq(Seq2Seq):
    """A bidirectional encoder, and a causal decoder that also attends to the encoder's outputs (Vaswani et al. 2017)."""

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

    def teacher_forced(self, token_BT: Tensor, memory: tuple[Source, ...]) -> Tensor:
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
    """The module; models/initialise.py draws its initial weights."""
    match config:
        case RecurrentSeq2SeqConfig():
            return RecurrentSeq2Seq(config, source_vocab, vocab)
        case TransformerSeq2SeqConfig():
            return TransformerSeq2Seq(config, source_vocab, vocab)
        case PrefixConfig():
            from firth.models.prefix import PrefixDecoder  # prefix.py imports this module

            return PrefixDecoder(config, vocab)


def texts_of(rows: Tensor, share: int) -> tuple[Tensor, int]:
    """The sources of the chosen rows, where `share` consecutive rows had one source, and how many rows share each now.

    A beam has the same number of consecutive hypotheses for every text, so it needs each source only once and changes them
    only when a text is finished. Any other choice of rows gets one source per row."""
    text_R = rows // share
    text_A, count_A = torch.unique_consecutive(text_R, return_counts=True)
    counts = set(count_A.tolist())
    return (text_A, counts.pop()) if len(counts) == 1 else (text_R, 1)


def _all_in_order(text_A: Tensor, texts: int) -> bool:
    return len(text_A) == texts and text_A.tolist() == list(range(texts))


def reversed_rows(token_BS: Tensor, length_B: Tensor) -> Tensor:
    """Reverse the first length_B[b] tokens of each row and leave the padding (Sutskever et al. 2014, §3.3)."""
    place_S = torch.arange(token_BS.shape[1], device=token_BS.device)
    back_BS = length_B[:, None] - 1 - place_S
    return token_BS.gather(1, torch.where(back_BS >= 0, back_BS, place_S))
