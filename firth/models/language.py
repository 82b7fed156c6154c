"""Language models: p(x) = Π p(x_t | x_<t). Letters: B batch, T time, V vocabulary, d width, e embedding width.

The interface is `forward(token_BT, state) → (logits_BTV, state)`, T ≥ 1: a prompt is one call, a step is a call with T = 1,
training is a call without a state. The loss is computed elsewhere (firth/objectives).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.position import SCHEMES
from firth.layers.recurrent import Recurrent, RecurrentKernel, dropout, dropout_words
from firth.layers.state import AttentionState, RecurrentState
from firth.layers.token_mixer import MIXERS
from firth.models.config import LanguageConfig, RecurrentConfig, TransformerConfig
from firth.models.decoder import Decoder, vocabulary_output
from firth.models.stack import Stack


class LanguageModel(Decoder):
    """The interface that decoding, scoring and training use."""

    @abstractmethod
    def start(self, batch: int) -> Any:
        """The state before the first token."""

    def forward(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        x_BTd, state = self.hidden(token_BT, state)
        return self.readout(x_BTd), state


class RecurrentLM(LanguageModel):
    """embedding → recurrent layers → vocabulary. A one-hot input times a matrix is a row of that matrix: the embedding."""

    context = None
    carries = True
    embedding_setting = "model.embedding.width"

    def __init__(self, config: RecurrentConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        inputs = config.embedding_width
        self.embedding = nn.Embedding(vocab, inputs)
        self.recurrent = Recurrent(
            config.kind,
            inputs,
            config.width,
            config.depth,
            dropout=config.rates.hidden,
            dropout_weight=config.dropout_weight,
            dropout_locked=config.dropout_locked,
            reset=config.reset,
        )
        self.embedding_std = inputs**-0.5 if config.tied else 1.0  # 1: large enough to move a tanh
        self.projection = nn.Linear(config.width, inputs, bias=False) if config.tied and inputs != config.width else None
        self.output = None if config.tied else nn.Linear(config.width, vocab)
        self.output_bias = nn.Parameter(torch.zeros(vocab)) if config.tied else None

    def start(self, batch: int) -> RecurrentState:
        return self.recurrent.initial_state(batch)

    def hidden(
        self, token_BT: Tensor, state: RecurrentState | None = None, kernel: RecurrentKernel = "auto"
    ) -> tuple[Tensor, RecurrentState]:
        h_BTd, state = self.states(token_BT, state, kernel)
        return self.readout_input(h_BTd), state

    def states(
        self, token_BT: Tensor, state: RecurrentState | None = None, kernel: RecurrentKernel = "auto"
    ) -> tuple[Tensor, RecurrentState]:
        """The hidden states of the top layer, and the state after the last token."""
        x_BTe: Tensor = self.embedding(token_BT)
        if self.training:
            x_BTe = dropout_words(x_BTe, token_BT, self.vocab, self.config.dropout_word)
            x_BTe = dropout(x_BTe, self.config.rates.input, self.config.dropout_locked)
        h_BTd, state = self.recurrent(x_BTe, state, kernel=kernel)
        return h_BTd, state

    def readout_input(self, h_BTd: Tensor) -> Tensor:
        """The input of the output layer: the hidden states, projected to the width of a tied embedding, after dropout."""
        x_BTd = h_BTd if self.projection is None else self.projection(h_BTd)
        return dropout(x_BTd, self.config.rates.output, self.config.dropout_locked) if self.training else x_BTd


class TransformerLM(Stack, LanguageModel):
    """embedding (+ position) → causal blocks → vocabulary (Vaswani et al. 2017, the decoder alone)."""

    carries = False
    embedding_setting = "model.width"

    def __init__(self, config: TransformerConfig, vocab: int) -> None:
        super().__init__(config, config.depth)
        self.config, self.vocab, self.logit_cap = config, vocab, config.logit_cap
        # Where every layer forgets, a text may go on for ever, with the same state.
        forgets = all(MIXERS[config.attention.in_layer(layer)].forgets for layer in range(config.depth))
        self.context = None if forgets and not SCHEMES[config.position.kind].acts() else config.context
        if config.position.steady is not None:  # beyond it, nothing can be cached
            self.context = min(config.position.steady, config.context or config.position.steady)
        self.embedding_std = config.width**-0.5  # a normalised x times the tied embedding then gives logits of order 1
        self.embedding = nn.Embedding(vocab, config.width)
        self.output, self.output_bias = vocabulary_output(config, vocab)

    @property
    def readout_norm(self) -> nn.Module | None:
        return self.norm if self.output is None else None

    def start(self, batch: int) -> AttentionState:
        blocks: Any = self.blocks
        return AttentionState(tuple(block.attention.start() for block in blocks))

    def hidden(self, token_BT: Tensor, state: AttentionState | None = None) -> tuple[Tensor, AttentionState | None]:
        x_BTd = self.embed_positions(self.embedding(token_BT), state.length if state else 0)
        return self.run_blocks(x_BTd, self.allowed(), state)

    def packed(self, token_BT: Tensor, document_BT: Tensor) -> Tensor:
        """The input of the output layer for rows of several texts, which do not see each other; document_BT numbers them.
        Positions count on from text to text, which relative ones and rotations do not notice."""
        x_BTd = self.embed_positions(self.embedding(token_BT), 0)
        return self.run_blocks(x_BTd, self.allowed() & mask.documents(document_BT))[0]

    def allowed(self) -> mask.Mask:
        """The mask of all layers; those that attend to a window narrow it themselves."""
        return mask.STRICTLY_CAUSAL if self.config.attention.mask == "strictly_causal" else mask.CAUSAL


def language_model(config: LanguageConfig, vocab: int) -> LanguageModel:
    """The module; models/initialise.py draws its initial weights."""
    match config:
        case RecurrentConfig():
            return RecurrentLM(config, vocab)
        case TransformerConfig():
            return TransformerLM(config, vocab)
