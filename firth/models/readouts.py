"""Readouts on top of an encoder: text classification and masked language modelling.

Each holds its `encoder`, so that one can be initialised from another.
Letters: B batch, T time, M positions, V vocabulary, d width, e embedding width, C classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.activation import Plain, plain
from firth.layers.norm import EPS, NormKind, norm
from firth.layers.pool import Pool, Pooler, PoolerKind, PoolKind, Transform
from firth.models.config import LanguageConfig, RecurrentConfig
from firth.models.encoder import Encoder, encoder
from firth.models.encoder_config import AverageConfig, EncoderConfig, TransformerEncoderConfig
from firth.models.language import language_model
from firth.models.network import Network


class Readout(Network):
    """An encoder with a readout."""

    def __init__(self, encoder: Encoder, vocab: int) -> None:
        super().__init__()
        self.encoder, self.vocab = encoder, vocab

    @property
    def context(self) -> int | None:  # type: ignore[override]
        return self.encoder.context

    @property
    def embedding(self) -> nn.Embedding:  # type: ignore[override]
        return self.encoder.embedding

    @property
    def embedding_std(self) -> float:  # type: ignore[override]
        return self.encoder.embedding_std

    @property
    def embedding_setting(self) -> str:  # type: ignore[override]
        return self.encoder.embedding_setting


class LabelReadout(Readout):
    """W dropout(x) + b of a vector, of the transformed one if there is a transform."""

    dropout: float
    transform: Transform | None
    output: nn.Linear

    def scores(self, x_nd: Tensor) -> Tensor:
        if self.transform is not None:
            x_nd = self.transform(x_nd)
        logits_nC: Tensor = self.output(F.dropout(x_nd, self.dropout, self.training) if self.dropout else x_nd)
        return logits_nC


class Classifier(LabelReadout):
    """p(class | text) = softmax(W dropout(pool(x)) + b); with a pooler, φ(V dropout(pool(x)) + c) stands for pool(x), and with a
    transform, N(φ(V pool(x) + c))."""

    def __init__(
        self,
        encoder: Encoder,
        vocab: int,
        classes: int,
        dropout: float,
        pool: PoolKind = "mean",
        pooler: PoolerKind | None = None,
        transform: Transform | None = None,
    ) -> None:
        super().__init__(encoder, vocab)
        self.classes, self.dropout = classes, dropout
        self.pool = Pool(pool, encoder.width)
        self.pooler = None if pooler is None else Pooler(pooler, encoder.width)
        self.transform = transform
        self.output = nn.Linear(encoder.width, classes)

    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor:
        x_BTd = self.encoder(token_BT, None if _all_full(token_BT, length_B) else length_B)
        x_Bd = self.pool(x_BTd, length_B)
        if self.pooler is not None:
            x_Bd = self.pooler(F.dropout(x_Bd, self.dropout, self.training) if self.dropout else x_Bd)
        return self.scores(x_Bd)


def _all_full(token_BT: Tensor, length_B: Tensor) -> bool:
    """True if no row is padded: then no mask is needed, and the fastest kernels run. Not checked on a GPU, where it would
    synchronise."""
    if not length_B.is_cpu or torch.compiler.is_compiling():
        return False
    return bool((length_B == token_BT.shape[1]).all())


class TextEmbedder(Readout):
    """One vector for a text: pool(x), divided by its length if `normalize`.

    The `pooler` of a checkpoint is kept, so that nothing of it is lost, but it takes no part."""

    def __init__(
        self, encoder: Encoder, vocab: int, pool: PoolKind, *, normalize: bool, pooler: PoolerKind | None = None
    ) -> None:
        super().__init__(encoder, vocab)
        self.normalize = normalize
        self.pool = Pool(pool, encoder.width)
        self.pooler = None if pooler is None else Pooler(pooler, encoder.width)

    def pooled(self, x_BTd: Tensor, length_B: Tensor) -> Tensor:
        """The vectors of texts from those of their tokens."""
        x_Bd: Tensor = self.pool(x_BTd, length_B)
        return F.normalize(x_Bd, dim=-1) if self.normalize else x_Bd

    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor:
        return self.pooled(self.encoder(token_BT, length_B), length_B)


class CausalEncoder(Encoder):
    """A language model as an encoder: x_t depends on the tokens up to t alone, so that the last one has seen the whole text.

    The parameters of `decoder` keep the names they have in a language model, so that they can be initialised from one; the output
    layer over the vocabulary is removed.
    """

    def __init__(self, config: LanguageConfig, vocab: int) -> None:
        super().__init__()
        self.decoder = language_model(config, vocab)
        self.width = self.decoder.output_layer()[0].shape[1]
        for part in ("output", "output_bias"):  # unused weights would only be saved
            if hasattr(self.decoder, part):
                setattr(self.decoder, part, None)
        self.embedding_setting, self.embedding_std = self.decoder.embedding_setting, self.decoder.embedding_std
        self.context = None if isinstance(config, RecurrentConfig) else config.longest

    @property
    def embedding(self) -> nn.Embedding:  # type: ignore[override]
        return self.decoder.embedding

    def forward(self, token_BT: Tensor, length_B: Tensor | None = None, segment_BT: Tensor | None = None) -> Tensor:
        x_BTd: Tensor = self.decoder.hidden(token_BT)[0]
        return x_BTd


class MaskedLM(Readout):
    """p(token | text with some tokens masked) = softmax(E y + b), y = norm(φ(W x + c)), E the embedding (Devlin et al. 2019).

    `vocab` tokens are predicted; the embedding has one row more, for <mask>, whose id is `vocab`. W and E are applied
    only at the requested positions. If `tied` is False, the output layer has a matrix of its own.
    """

    def __init__(
        self,
        encoder: Encoder,
        vocab: int,
        *,
        norm_kind: NormKind = "layer",
        norm_eps: float = EPS,
        tied: bool = True,
        output_bias: bool = True,
        transform_bias: bool = True,
        activation: Plain = "gelu",
    ) -> None:
        super().__init__(encoder, vocab)
        self.activation = activation
        inputs = encoder.embedding.embedding_dim
        self.transform = nn.Linear(encoder.width, inputs, bias=transform_bias)
        self.norm = norm(norm_kind, inputs, bias=transform_bias, eps=norm_eps)
        self.output = None if tied else nn.Linear(inputs, vocab, bias=output_bias)
        self.output_bias = nn.Parameter(torch.zeros(vocab)) if tied and output_bias else None

    @property
    def embedding_std(self) -> float:  # type: ignore[override]
        """So that a normalised y times the embedding gives logits of order 1."""
        return float(self.embedding.embedding_dim**-0.5)

    @property
    def readout_norm(self) -> nn.Module | None:
        return self.norm if self.output is None else None

    def hidden(self, token_BT: Tensor, length_B: Tensor | None = None, place_BM: Tensor | None = None) -> Tensor:
        """y_BMe, the input of the output layer, at the positions place_BM of each row; at all positions if that is None."""
        x_BTd = self.encoder(token_BT, length_B)
        if place_BM is not None:
            x_BTd = x_BTd.gather(1, place_BM.unsqueeze(-1).expand(-1, -1, x_BTd.shape[-1]))
        y_BMe: Tensor = self.norm(plain(self.activation, self.transform(x_BTd)))
        return y_BMe

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """W_Ve and b_V."""
        if self.output is None:
            return self.embedding.weight[: self.vocab], self.output_bias
        return self.output.weight, self.output.bias

    def forward(self, token_BT: Tensor, length_B: Tensor | None = None, place_BM: Tensor | None = None) -> Tensor:
        """logits_BMV."""
        return F.linear(self.hidden(token_BT, length_B, place_BM), *self.output_layer())


def masked_lm(config: EncoderConfig, vocab: int) -> MaskedLM:
    """The module, with weights not yet drawn; see models/initialise.py."""
    return masked_readout(config, encoder(config, vocab + 1), vocab)


def masked_readout(config: EncoderConfig, own: Encoder, vocab: int) -> MaskedLM:
    """The readout of masked tokens that fits the settings of an encoder."""
    if isinstance(config, TransformerEncoderConfig):
        return MaskedLM(
            own,
            vocab,
            norm_kind=config.norm.kind,
            norm_eps=config.norm.eps,
            tied=config.tied,
            output_bias=config.output_bias is not False,
            transform_bias=config.transform_bias,
            activation=config.transform_activation,
        )
    return MaskedLM(own, vocab)


def classifier(config: EncoderConfig | LanguageConfig, vocab: int, classes: int) -> Classifier:
    """The module, with weights not yet drawn; see models/initialise.py. A decoder represents the text by its last token."""
    if isinstance(config, LanguageConfig):
        # A recurrent model applies dropout to its states itself.
        dropout = 0.0 if isinstance(config, RecurrentConfig) else config.dropout
        return Classifier(CausalEncoder(config, vocab), vocab, classes, dropout, "last")
    pool = "mean" if isinstance(config, AverageConfig) else config.pool
    pooler = config.pooler if isinstance(config, TransformerEncoderConfig) else None
    return Classifier(encoder(config, vocab), vocab, classes, config.dropout, pool, pooler, label_transform(config))


def label_transform(config: EncoderConfig) -> Transform | None:
    """The layer before the output layer of a classifier, tagger or question answerer, if the model has one."""
    if isinstance(config, TransformerEncoderConfig) and config.transform:
        return Transform(config.width, config.norm, bias=config.transform_bias, activation=config.transform_activation)
    return None


def text_embedder(config: TransformerEncoderConfig, vocab: int, *, normalize: bool) -> TextEmbedder:
    return TextEmbedder(encoder(config, vocab), vocab, config.pool, normalize=normalize, pooler=config.pooler)
