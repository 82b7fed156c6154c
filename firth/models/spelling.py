"""A vector for a word from its spelling, for taggers. To add a way, write a SpellingEncoder and add it to SPELLINGS.

Letters: M words, K symbols of the longest spelling, c width of a symbol, F features, D directions, h width of a hidden state, e
width of the result. s_k is the vector of the k-th byte; both ends of a word are symbols of their own, so that a suffix differs
from a syllable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from firth.config import SubTable, renamed
from firth.errors import ConfigError
from firth.ideas import Idea, Ideas
from firth.layers.recurrent import Recurrent
from firth.models.config import at_most
from firth.text.batches.sentences import SYMBOLS

Join = Literal["add", "concatenate"]

_WINDOW = 3  # bytes, including the ends of the word: "un", "ed" with the end, "ing"
_FEATURES = 4  # per element of the vector of a byte


class SpellingEncoder(nn.Module, Idea, ABC):
    """A vector for each word from the bytes of its UTF-8:  P f(s) + b, or f(s) itself where no width is given."""

    wide: ClassVar[int]  # features for each element of the vector of a byte

    def __init__(self, characters: int, width: int | None) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, characters)
        self.features = None if width is None else nn.Linear(self.wide * characters, width)

    def forward(self, symbol_MK: Tensor) -> Tensor:
        feature_MF = self.read(symbol_MK)
        x_Me: Tensor = feature_MF if self.features is None else self.features(feature_MF)
        return x_Me

    @abstractmethod
    def read(self, symbol_MK: Tensor) -> Tensor:
        """f(s): the features of each word, whose symbols are padded with 0."""


class SpellingConvolution(SpellingEncoder):
    """f(s) = max_k (A [s_k; s_k+1; s_k+2] + a)   (as in Ma & Hovy 2016). All words and positions are computed at once."""

    kind = "convolution"
    about = "The maximum over all positions of a linear layer over three bytes (as in Ma & Hovy 2016)."
    latex = r"f(s) = \max_k \left(A [s_k; s_{k+1}; s_{k+2}] + a\right)"
    wide = _FEATURES

    def __init__(self, characters: int, width: int | None) -> None:
        super().__init__(characters, width)
        self.windows = nn.Linear(_WINDOW * characters, self.wide * characters)

    def read(self, symbol_MK: Tensor) -> Tensor:
        x_MKwc = self.symbols(symbol_MK).unfold(1, _WINDOW, 1).mT
        feature_MKF = self.windows(x_MKwc.flatten(2))
        behind_MK = symbol_MK[:, _WINDOW - 1 :] == 0  # a window that overlaps the padding
        feature_MF: Tensor = feature_MKF.masked_fill(behind_MK.unsqueeze(-1), -torch.inf).amax(1)
        return feature_MF


class SpellingLSTM(SpellingEncoder):
    """f(s) = [h→_K; h←_1]: the last states of an LSTM in each direction (Lample et al. 2016, section 4.1), as wide as s."""

    kind = "lstm"
    about = "The last states of an LSTM that reads the bytes in both directions (Lample et al. 2016)."
    latex = r"f(s) = [\overrightarrow{h}_K; \overleftarrow{h}_1]"
    wide = 2

    def __init__(self, characters: int, width: int | None) -> None:
        super().__init__(characters, width)
        self.recurrent = Recurrent("lstm", characters, characters, bidirectional=True)

    def read(self, symbol_MK: Tensor) -> Tensor:
        _, last = self.recurrent(self.symbols(symbol_MK), length_B=(symbol_MK != 0).sum(1))
        h_DMh = last.parts[0]
        return torch.cat(list(h_DMh), -1)


SPELLINGS: Ideas[type[SpellingEncoder]] = Ideas("spelling encoder", SpellingEncoder, (SpellingConvolution, SpellingLSTM))
SpellingKind = Annotated[str, SPELLINGS]


@dataclass(frozen=True, kw_only=True)
class SpellingConfig(SubTable):
    """How a tagger uses the spelling of words."""

    kind: SpellingKind = "convolution"  # how the bytes of a word become a vector
    # dimension of the byte embeddings that encode each word's spelling; 0: spelling is not used
    width: int = renamed(".characters", default=0)

    def __post_init__(self) -> None:
        if self.width < 0:
            raise ConfigError(f"model.spelling.width is {self.width}; expected 0 or more")
        at_most("spelling.width", self.width)
        if not self.width and any(getattr(self, field.name) != field.default for field in fields(self)):
            raise ConfigError("model.spelling.width is 0, so the spelling is not used. Set it, for example to 25.")

    def encoder(self, embedding: int) -> SpellingEncoder | None:
        """The module for tokens with embeddings of this width."""
        return SPELLINGS[self.kind](self.width, self.projected(embedding)) if self.width else None

    def projected(self, embedding: int) -> int | None:
        """The width that the features are projected to; None: they are not."""
        return embedding


@dataclass(frozen=True, kw_only=True)
class JoinedSpellingConfig(SpellingConfig):
    """In recurrent encoders, the spelling can also stand beside the embedding."""

    # how the word's embedding and that of its spelling become one: their sum, or one beside the other
    join: Join = "add"

    def projected(self, embedding: int) -> int | None:
        return embedding if self.join == "add" else None

    @property
    def beside(self) -> int:
        """The width that the spelling adds to the input of the encoder."""
        return 0 if self.join == "add" else SPELLINGS[self.kind].wide * self.width
