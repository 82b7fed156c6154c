"""Language models: p(x) = Π p(x_t | x_<t). Letters: B batch, T time, V vocabulary, d width, e embedding width.

The seam is `forward(token_BT, state) → (logits_BTV, state)`, T ≥ 1: a prompt is one call, a step is a call with T = 1,
training is a call without a state. The loss is not in here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.block import Block
from firth.layers.heads import Where
from firth.layers.norm import norm
from firth.layers.position import Distances, Learned, Rotary, Sinusoidal, Slopes
from firth.layers.recurrent import Recurrent, RecurrentKernel, dropout, dropout_words
from firth.layers.state import AttentionState, RecurrentState
from firth.models.config import BUCKETS, CLIP, REACH, LanguageConfig, RecurrentConfig, TransformerConfig
from firth.models.decoder import Decoder


class LanguageModel(Decoder):
    """What decoding, scoring and training rely on."""

    @abstractmethod
    def start(self, batch: int) -> Any:
        """The state before the first token."""

    def forward(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        x_BTd, state = self.hidden(token_BT, state)
        return self.readout(x_BTd), state


class RecurrentLM(LanguageModel):
    """embedding → RNN | LSTM | GRU → vocabulary. A one-hot input times a matrix is a row of it: the embedding."""

    context = None
    carries = True
    embedding_setting = "model.embedding"

    def __init__(self, config: RecurrentConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        inputs = config.embedding or config.width
        self.embedding = nn.Embedding(vocab, inputs)
        self.recurrent = Recurrent(
            config.kind,
            inputs,
            config.width,
            config.depth,
            dropout=config.rates.hidden,
            dropout_weight=config.dropout_weight,
            locked=config.locked,
            reset=config.reset,
        )
        self.embedding_std = inputs**-0.5 if config.tied else 1.0  # 1: inputs that a tanh can hear
        self.projection = nn.Linear(config.width, inputs, bias=False) if config.tied and inputs != config.width else None
        self.output = None if config.tied else nn.Linear(config.width, vocab)
        self.output_bias = nn.Parameter(torch.zeros(vocab)) if config.tied else None

    def start(self, batch: int) -> RecurrentState:
        return self.recurrent.initial_state(batch)

    def hidden(
        self, token_BT: Tensor, state: RecurrentState | None = None, kernel: RecurrentKernel = "auto"
    ) -> tuple[Tensor, RecurrentState]:
        x_BTe: Tensor = self.embedding(token_BT)
        if self.training:
            x_BTe = dropout_words(x_BTe, token_BT, self.vocab, self.config.dropout_word)
            x_BTe = dropout(x_BTe, self.config.rates.input, self.config.locked)
        x_BTd, state = self.recurrent(x_BTe, state, kernel=kernel)
        if self.projection is not None:
            x_BTd = self.projection(x_BTd)
        if self.training:
            x_BTd = dropout(x_BTd, self.config.rates.output, self.config.locked)
        return x_BTd, state

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return (self.embedding.weight, self.output_bias) if self.output is None else (self.output.weight, self.output.bias)


class TransformerLM(LanguageModel):
    """embedding (+ position) → blocks that look back only → vocabulary (Vaswani et al. 2017, the decoder alone)."""

    carries = False
    embedding_setting = "model.width"

    def __init__(self, config: TransformerConfig, vocab: int) -> None:
        super().__init__()
        if config.context is None:
            raise ConfigError("model.context is missing; a Transformer needs the longest text it reads at once")
        self.config, self.vocab, self.context = config, vocab, config.context
        self.embedding_std = config.width**-0.5  # a normalised x times the tied embedding then gives logits of order 1
        width, head_width = config.width, config.width // config.heads
        self.embedding = nn.Embedding(vocab, width)
        self.position: Learned | Sinusoidal | None = None
        self.rotary: Rotary | None = None
        self.relative: Distances | Slopes | None = None
        clip = None
        match config.position:
            case "learned":
                self.position = Learned(config.context, width)
            case "sinusoidal":
                self.position = Sinusoidal(config.context, width, config.base)
            case "rotary":
                self.rotary = Rotary(config.context, head_width, config.base)
            case "t5":
                self.relative = Distances(config.buckets or BUCKETS, config.heads, both=False, reach=config.reach or REACH)
            case "alibi":
                self.relative = Slopes(config.heads)
            case "shaw":
                clip = config.clip or CLIP
            case "none":
                pass
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                config.groups,
                config.inner,
                activation=config.activation,
                norm_kind=config.norm,
                placement=config.norm_placement,
                bias=config.bias,
                dropout=config.dropout,
                score=config.score,
                clip=clip,
            )
            for _ in range(config.depth)
        )
        # A post-norm block ends in a norm already.
        self.norm = norm(config.norm, width, config.bias) if config.norm_placement == "pre" else nn.Identity()
        self.output = None if config.tied else nn.Linear(width, vocab, bias=config.bias)

    def start(self, batch: int) -> AttentionState:
        return AttentionState.empty(self.config.depth)

    def hidden(self, token_BT: Tensor, state: AttentionState | None = None) -> tuple[Tensor, AttentionState | None]:
        start, length = (state.length if state else 0), token_BT.shape[1]
        x_BTd = self._embedded(token_BT, start)
        allowed, where = self.allowed(), self._where(start, length)
        layers = []
        for n, block in enumerate(self.blocks):
            x_BTd, layer = block(x_BTd, allowed, where, state.layers[n] if state else None)
            layers.append(layer)
        return self.norm(x_BTd), AttentionState(tuple(layers)) if state else None

    def allowed(self) -> mask.Mask:
        match self.config.mask:
            case "strictly_causal":
                return mask.STRICTLY_CAUSAL
            case "window" if self.config.span is not None:
                return mask.window(self.config.span)
            case _:
                return mask.CAUSAL

    def _where(self, start: int, length: int) -> Where:
        if self.rotary is not None:
            return self.rotary.at(start, length)
        return self.relative() if self.relative is not None else None

    def _embedded(self, token_BT: Tensor, start: int) -> Tensor:
        x_BTd: Tensor = self.embedding(token_BT)
        if isinstance(self.position, Sinusoidal):
            x_BTd = x_BTd * self.config.width**0.5  # Vaswani et al. 2017, §3.4: keeps the token audible beside the sinusoid
        if self.position is not None:
            x_BTd = x_BTd + self.position(start, token_BT.shape[1])
        if torch.is_autocast_enabled(x_BTd.device.type):
            # The sum that runs through all blocks, too, is kept in the type of the products: half the memory to move.
            x_BTd = x_BTd.to(torch.get_autocast_dtype(x_BTd.device.type))
        return F.dropout(x_BTd, self.config.dropout, self.training) if self.config.dropout else x_BTd

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return (self.embedding.weight, None) if self.output is None else (self.output.weight, self.output.bias)


def language_model(config: LanguageConfig, vocab: int) -> LanguageModel:
    """The module, with weights not yet drawn; see models/initialise.py."""
    match config:
        case RecurrentConfig():
            return RecurrentLM(config, vocab)
        case TransformerConfig():
            return TransformerLM(config, vocab)
