"""Decoders with an encoder, any of those for texts (seq2seq.py) and images (captioner.py):

    p(y | x) = Π p(y_t | y_<t, encoder(x))

`encode(*source) → memory` reads the source. `teacher_forced(token_BT, memory)` processes a whole target at once, for training;
`start(memory) → state` and `step` generate, as with every decoder. States have `select(rows)`, for beam search. <eos> is the
decoder's first input, and it ends the target.

Letters: B batch, S length of the memory, T target, V vocabulary, e embedding width, m width of the memory, d width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.attentive_recurrence import AttentionalState, AttentiveRecurrent
from firth.layers.cross_attention import Source
from firth.layers.recurrent import CELLS, Recurrent
from firth.layers.state import AttentionState, RecurrentState, parted
from firth.models.caption_config import TransformerCaptionConfig
from firth.models.decoder import Decoder, vocabulary_output
from firth.models.seq2seq_config import RecurrentDecoderConfig, TransformerSeq2SeqConfig
from firth.models.stack import Stack


class EncodedSource(NamedTuple):
    """The result of an encoder: a vector for each token or cell, and the last state if it is recurrent."""

    memory_BSm: Tensor  # whatever it is past the end of a row, decoders ignore it
    length_B: Tensor
    last: RecurrentState | None = None

    @property
    def vector_Bm(self) -> Tensor:
        """The source as one vector: the last output in each direction of a recurrent encoder, else the mean."""
        if self.last is not None:
            directions = self.memory_BSm.shape[-1] // self.last.h_LBd.shape[-1]
            return self.last.h_LBd[-directions:].transpose(0, 1).flatten(1)
        seen_BS1 = (torch.arange(self.memory_BSm.shape[1], device=self.length_B.device) < self.length_B[:, None]).unsqueeze(-1)
        return self.memory_BSm.where(seen_BS1, 0.0).sum(1) / self.length_B[:, None]


class SourceEncoder(Protocol):
    """A module that encodes a source. An encoder of texts is given their tokens, lengths and embedding; one of images, images."""

    memory_width: int
    reads_text: bool
    recurrent: bool  # whether it has a last state

    def encode(self, *source: Any) -> EncodedSource: ...


class ConditionalDecoder(Decoder):
    """The interface that decoding, scoring and training use."""

    carries = False
    encoder: Any  # a SourceEncoder that is a module
    own_embedding: nn.Embedding | None  # of a source text; None if it shares the target's

    @property
    def reads_text(self) -> bool:
        """True if the source is a text."""
        return bool(self.encoder.reads_text)

    @property
    def source_vocab(self) -> int:
        return self.source_embedding.num_embeddings

    @property
    def source_embedding(self) -> nn.Embedding:
        return self.embedding if self.own_embedding is None else self.own_embedding

    def encode(self, *source: Tensor) -> Any:
        """Everything the decoder will know about the source."""
        encoded: EncodedSource = self.encoder.encode(*source, *((self.source_embedding,) if self.reads_text else ()))
        return self.remember(encoded)

    def remember(self, encoded: EncodedSource) -> Any:
        """The source as the decoder keeps it for all its steps."""
        return encoded

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def teacher_forced(self, token_BT: Tensor, memory: Any) -> Tensor:
        """The decoder's outputs after every token of the reference target, before the output layer."""
        return self.hidden(token_BT, self.start(memory))[0]

    def forward(self, *inputs: Tensor) -> Tensor:
        """logits_BTV after each token of the target so far; the source, then token_BT."""
        *source, token_BT = inputs
        return self.readout(self.teacher_forced(token_BT, self.encode(*source)))


@dataclass(frozen=True, eq=False)
class DecoderState:
    """The state of a recurrent decoder, and what it stores about the source."""

    recurrent: RecurrentState
    memory: Source | None  # with attention
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

    def fixed(self, capacity: int) -> DecoderState:
        return self if self.memory is None else replace(self, memory=self.memory.fixed())

    @property
    def constants(self) -> tuple[int, ...]:
        return (self.share,)

    def tensors(self) -> tuple[Tensor, ...]:
        memory = () if self.memory is None else self.memory.tensors()
        fed = tuple(part for part in (self.context_Bm, self.fed_Bd) if part is not None)
        return *self.recurrent.tensors(), *memory, *fed

    def of(self, tensors: Iterable[Tensor]) -> DecoderState:
        parts = [part for part in (self.recurrent, self.memory) if part is not None]
        given = list(tensors)
        held = parted(parts, given)
        rest = iter(given[sum(len(part.tensors()) for part in parts) :])
        context_Bm, fed_Bd = (None if part is None else next(rest) for part in (self.context_Bm, self.fed_Bd))
        return DecoderState(held[0], held[1] if len(held) > 1 else None, context_Bm, self.share, fed_Bd)


class RecurrentDecoder(ConditionalDecoder):
    """The state starts from h_0 = tanh(W_s ←h_1) after a recurrent encoder (Bahdanau et al. 2015), else from the mean vector,
    h_0 = tanh(W_h ā + b_h), c_0 = tanh(W_c ā + b_c) (Xu et al. 2015, §3.1.2).

    attention = "none": the decoder starts from the encoder's last state and sees nothing else of the source (Sutskever et al.
    2014); with `feed_context`, the encoder's last output also enters every step (Cho et al. 2014).

    decoder = "bahdanau" is RNNsearch (Bahdanau et al. 2015): the decoder attends to the whole memory before every step, and
    ŷ_t = softmax(W_h h_t + W_e e_t + W_c c_t). Layers above the first have no attention.

    decoder = "luong" (Luong et al. 2015): the top layer's h_t attends after every step, and ŷ_t = softmax(W h̃_t) with
    h̃_t = tanh(W_c [c_t; h_t]). With `input_feeding`, h̃_{t−1} is an input of step t, beside e_t."""

    config: RecurrentDecoderConfig
    context = None
    embedding_setting = "model.embedding.width"

    def __init__(
        self, config: RecurrentDecoderConfig, encoder: SourceEncoder, vocab: int, own_embedding: nn.Embedding | None = None
    ) -> None:
        """The decoder's layers are made last: an optimiser's state is saved in the order in which the parameters were made."""
        super().__init__()
        self.config, self.vocab, inputs, width = config, vocab, config.embedding_width, config.width
        self.embedding_std = inputs**-0.5 if config.tied else 1.0
        self.embedding = nn.Embedding(vocab, inputs)
        self.own_embedding, self.encoder = own_embedding, encoder
        self.first: nn.Linear | None = None
        if config.attention != "none" or not encoder.recurrent:
            given = width if encoder.recurrent else encoder.memory_width
            parts = 1 if encoder.recurrent else len(CELLS[config.kind].state)
            self.first = nn.Linear(given, parts * config.depth * width)
        self._add_layers(encoder.memory_width)

    def _add_layers(self, memory: int) -> None:
        """The layers after the encoder, for a memory of that width."""
        config, inputs, width = self.config, self.embedding.embedding_dim, self.config.width
        luong, attentive = config.decoder == "luong", config.attention != "none" and config.decoder == "bahdanau"
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
        fed = inputs + (memory if config.feeds_context else 0) + (width if config.input_feeding else 0)
        layers = config.depth - 1 if attentive else config.depth
        if layers:
            self.recurrent = Recurrent(
                config.kind, width if attentive else fed, width, layers, dropout=config.dropout, reset=config.decoder_reset
            )
        features = width + inputs + memory if attentive or config.feeds_context else width
        self.projection = nn.Linear(features, inputs, bias=False) if config.tied and features != inputs else None
        self.output = None if config.tied else nn.Linear(features, self.vocab)
        self.output_bias = nn.Parameter(torch.zeros(self.vocab)) if config.tied else None

    def start(self, memory: EncodedSource) -> DecoderState:
        attention = self.attentional or self.attentive
        attended = attention.remember(memory.memory_BSm, memory.length_B) if attention is not None else None
        first = self._first(memory)
        fed_Bd = torch.zeros_like(first.h_LBd[0]) if self.config.input_feeding else None
        return DecoderState(first, attended, memory.vector_Bm if self.config.feeds_context else None, fed_Bd=fed_Bd)

    def _first(self, memory: EncodedSource) -> RecurrentState:
        """The state before the first step."""
        last, depth = memory.last, self.config.depth
        if self.first is None:
            assert last is not None  # of a recurrent encoder
            return last
        given_Bm = memory.vector_Bm if last is None else last.h_LBd[-1]
        layers = torch.tanh(self.first(given_Bm)).chunk(self.first.out_features // self.config.width, dim=-1)
        parts = [torch.stack(layers[n : n + depth]) for n in range(0, len(layers), depth)]
        kept = len(CELLS[self.config.kind].state) - len(parts)
        return RecurrentState(*parts, *(torch.zeros_like(parts[0]) for _ in range(kept)))

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

    def alignment(self, *inputs: Tensor) -> Tensor:
        """α_BTS of the source and token_BT; see `alignment_to`."""
        *source, token_BT = inputs
        return self.alignment_to(self.encode(*source), token_BT)

    def alignment_to(self, memory: EncodedSource, token_BT: Tensor) -> Tensor:
        """α_BTS: the attention weights of each step, computed before it predicts."""
        state = self.start(memory)
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

    def fixed(self, capacity: int) -> Translated:
        return Translated(self.own.fixed(capacity), tuple(source.fixed() for source in self.sources), self.share)

    @property
    def constants(self) -> tuple[int, ...]:
        return (self.share,)

    def tensors(self) -> tuple[Tensor, ...]:
        return *self.own.tensors(), *(tensor for source in self.sources for tensor in source.tensors())

    def of(self, tensors: Iterable[Tensor]) -> Translated:
        own, *sources = parted((self.own, *self.sources), list(tensors))
        return Translated(own, tuple(sources), self.share)


class TransformerDecoder(ConditionalDecoder):
    """A causal decoder whose blocks also attend to the memory (Vaswani et al. 2017)."""

    config: TransformerSeq2SeqConfig | TransformerCaptionConfig
    embedding_setting = "model.width"
    decoder: Stack

    def __init__(
        self,
        config: TransformerSeq2SeqConfig | TransformerCaptionConfig,
        encoder: SourceEncoder,
        vocab: int,
        own_embedding: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        if encoder.memory_width != config.width:
            raise ConfigError(
                f"the decoder attends to vectors of its own width {config.width}; the encoder gives {encoder.memory_width}"
            )
        self.config, self.vocab, self.context = config, vocab, config.context
        self.embedding_std = config.width**-0.5
        self.embedding = nn.Embedding(vocab, config.width)
        self.own_embedding, self.encoder = own_embedding, encoder
        self.decoder = Stack(config, config.depth, cross=True)
        self.output, self.output_bias = vocabulary_output(config, vocab)

    @property
    def readout_norm(self) -> nn.Module | None:
        return self.decoder.norm if self.output is None else None

    def remember(self, encoded: EncodedSource) -> tuple[Source, ...]:
        """Keys and values of the memory for each layer of the decoder."""
        given = encoded.memory_BSm, encoded.length_B
        return tuple(block.cross.remember(*given) for block in self.decoder.blocks)  # type: ignore[union-attr, operator]

    def start(self, memory: tuple[Source, ...]) -> Translated:
        return Translated(AttentionState.empty(self.config.depth), memory)

    def teacher_forced(self, token_BT: Tensor, memory: tuple[Source, ...]) -> Tensor:
        x_BTd, _ = self.decoder.run_blocks(self.decoder.embed_positions(self.embedding(token_BT), 0), mask.CAUSAL, None, memory)
        return self._scaled(x_BTd)

    def hidden(self, token_BT: Tensor, state: Translated) -> tuple[Tensor, Translated]:  # type: ignore[override]
        x_BTd = self.decoder.embed_positions(self.embedding(token_BT), state.own.length)
        x_BTd, own = self.decoder.run_blocks(x_BTd, mask.CAUSAL, state.own, state.sources)
        assert own is not None
        return self._scaled(x_BTd), Translated(own, state.sources, state.share)

    def _scaled(self, x_BTd: Tensor) -> Tensor:
        return x_BTd * self.config.width**-0.5 if self.config.output_scale else x_BTd


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
