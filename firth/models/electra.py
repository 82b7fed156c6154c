"""ELECTRA (Clark et al. 2020): a small generator replaces tokens, and a discriminator finds the replaced ones.

Both read the same token embedding E. The generator is narrower, so it reads P E[token] with a projection P (§3.2 of the paper),
and its output layer is E again. Positions are not shared: where they are learned, the generator has its own.
Letters: B batch, T time, M masked positions, V vocabulary, d width, e embedding width.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from firth.layers.gelu import gelu
from firth.models.embedding_config import SizedEmbeddingConfig
from firth.models.encoder import EmbeddingEncoder, Encoder, encoder
from firth.models.encoder_config import EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.readouts import MaskedLM, Readout, masked_readout


class SharedEmbedding(Encoder):
    """x_BTd = inside(P E[token]), E the embedding of `owner`. P is left out where the widths agree."""

    def __init__(self, inside: EmbeddingEncoder, owner: EmbeddingEncoder) -> None:
        super().__init__()
        given, read = owner.embedding.embedding_dim, inside.embedding.embedding_dim
        del inside.embedding
        self.inside = inside
        self.project = nn.Identity() if given == read else nn.Linear(given, read)
        self._owner = (owner,)  # a tuple hides it from torch: E is registered, counted and saved once, as the owner's
        self.width, self.context = inside.width, inside.context
        self.embedding_std, self.embedding_setting = owner.embedding_std, owner.embedding_setting

    @property
    def embedding(self) -> nn.Embedding:  # type: ignore[override]
        return self._owner[0].embedding

    def forward(self, token_BT: Tensor, length_B: Tensor | None = None, segment_BT: Tensor | None = None) -> Tensor:
        return self.inside.read(self.project(self._owner[0].embedded(token_BT, segment_BT)), length_B)


class Electra(Readout):
    """p(token t was replaced | text) = σ(w·gelu(W x_t + c) + b), x the vectors of `encoder`, the discriminator's.

    `generator` is a masked language model over the same `vocab` tokens; it is only needed for training, and an imported model has
    none. The embedding has one row more, for <mask>, whose id is `vocab`. The discriminator never reads it.
    """

    encoder: EmbeddingEncoder

    def __init__(self, encoder: EmbeddingEncoder, generator: MaskedLM | None, vocab: int) -> None:
        super().__init__(encoder, vocab)
        self.generator = generator
        self.transform = nn.Linear(encoder.width, encoder.width)
        self.output = nn.Linear(encoder.width, 1)

    @property
    def embedding_std(self) -> float:  # type: ignore[override]
        return float(self.embedding.embedding_dim**-0.5)  # as in the generator

    def forward(self, token_BT: Tensor, length_B: Tensor | None = None) -> Tensor:
        """logits_BT; positive where the token was probably replaced."""
        logits_BT1: Tensor = self.output(gelu(self.transform(self.encoder(token_BT, length_B))))
        return logits_BT1.squeeze(-1)


def sample(logits_BMV: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """token_BM drawn from softmax(z), as argmax_v (z_v − log q_v) with q_v ~ Exp(1): the Gumbel-max trick, since −log q_v has the
    Gumbel distribution. Without a generator, torch's own draws; in a training step that one holds the run's state."""
    z_BMV = logits_BMV if logits_BMV.dtype == torch.float64 else logits_BMV.float()
    q_BMV = torch.empty_like(z_BMV).exponential_(generator=generator)
    return (z_BMV - q_BMV.log()).argmax(-1)


def sample_by(logits_BMV: Tensor, uniform_BM: Tensor) -> Tensor:
    """token_BM with softmax(z) as its distribution: the first token whose cumulative probability exceeds a number u from 0 up to
    1. Only u is random, so the samples of a row do not depend on the other rows of its batch."""
    z_BMV = logits_BMV if logits_BMV.dtype == torch.float64 else logits_BMV.float()
    below_BMV = torch.softmax(z_BMV, -1).cumsum(-1)
    wanted_BM1 = uniform_BM.to(z_BMV).unsqueeze(-1) * below_BMV[..., -1:]  # the sum of all is 1 but for rounding
    return (below_BMV <= wanted_BM1).sum(-1).clamp(max=z_BMV.shape[-1] - 1)


def corrupt(token_BT: Tensor, place_BM: Tensor, target_BM: Tensor, sample_BM: Tensor) -> tuple[Tensor, Tensor]:
    """The text with the samples at its masked positions, and which of its tokens are replaced. A sample that equals the original
    token is no replacement. Positions whose target is negative are padding, and nothing is written there."""
    length = token_BT.shape[1]
    place_BM = torch.where(target_BM < 0, length, place_BM)  # padding writes into a column behind the text, which is cut off
    behind_B1 = token_BT.new_zeros(len(token_BT), 1)
    read_BT = torch.cat([token_BT, behind_B1], 1).scatter(1, place_BM, sample_BM)[:, :length]
    replaced_BT = token_BT.new_zeros(len(token_BT), length + 1).scatter(1, place_BM, (sample_BM != target_BM).to(token_BT))
    return read_BT, replaced_BT[:, :length].bool()


def generator_config(
    config: RecurrentEncoderConfig | TransformerEncoderConfig, share: float
) -> RecurrentEncoderConfig | TransformerEncoderConfig:
    """The discriminator's settings with `share` of its width, of its heads and of its feed-forward width (§3.2); depth stays.
    The width of a head is rounded to an even number, which rotary positions need."""
    if isinstance(config, RecurrentEncoderConfig):
        return replace(config, width=max(1, round(share * config.width)), embedding=SizedEmbeddingConfig())
    attention, hidden = config.attention, config.feedforward.hidden
    heads = max(1, round(share * attention.heads))
    width = heads * max(2, 2 * round(share * config.width / heads / 2))
    return replace(
        config,
        width=width,
        attention=replace(
            attention, heads=heads, kv_heads=None if attention.kv_heads is None else math.gcd(attention.kv_heads, heads)
        ),
        feedforward=replace(config.feedforward, hidden=None if hidden is None else max(1, round(hidden * width / config.width))),
        segments=0,  # the shared embedding adds them
        embedding=replace(config.embedding, vectors=None, vectors_fixed=False),
    )


def electra(config: EncoderConfig, vocab: int, share: float) -> Electra:
    """The module, with weights not yet drawn; see models/initialise.py. The generator has `share` of the width; 0: none."""
    assert isinstance(config, RecurrentEncoderConfig | TransformerEncoderConfig)  # the task refuses "average"
    discriminator = encoder(config, vocab + 1)
    if not share:
        return Electra(discriminator, None, vocab)
    small = SharedEmbedding(encoder(generator_config(config, share), 1), discriminator)
    return Electra(discriminator, masked_readout(config, small, vocab), vocab)
