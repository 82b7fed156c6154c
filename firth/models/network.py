"""The base of every network, whatever it is trained for, and the [model] tables that describe them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torch import nn

from firth.models.caption_config import CaptionModelConfig
from firth.models.config import LanguageConfig
from firth.models.encoder_config import EncoderConfig
from firth.models.seq2seq_config import Seq2SeqConfig

ModelConfig = LanguageConfig | EncoderConfig | Seq2SeqConfig | CaptionModelConfig


class Network(nn.Module):
    """A module that a task builds, trains and saves. Its constructor only constructs; models/initialise.py draws the weights."""

    context: int | None  # tokens that it was made to read at once; None: no limit
    embedding: nn.Embedding
    embedding_std: float  # of the initial embedding
    embedding_setting: str  # the setting that changes the embedding's width
    carries: bool = False  # whether the state at the end of one window may start the next (truncated BPTT)

    # learning rate of a weight divided by training.rate, by name, where it depends on the width (width_rules.py)
    rate_factors: Mapping[str, float] = MappingProxyType({})

    @property
    def readout_norm(self) -> nn.Module | None:
        """The norm before an output layer that is the embedding's matrix, too; None: there is none."""
        return None

    @property
    def reads_text(self) -> bool:
        """True if its input is a text."""
        return True

    @property
    def source_embedding(self) -> nn.Embedding:
        """The embedding of the text that it reads."""
        return self.embedding
