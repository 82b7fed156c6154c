"""Models: configs in, modules out. `language_model(config, vocab)` builds one, and `step` is how it is read from;
`classifier(config, vocab, classes)` builds the other family: text in, classes out."""

from firth.models.config import (
    AverageConfig,
    EncoderConfig,
    LanguageConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
)
from firth.models.encoder import Classifier, Encoder, classifier
from firth.models.language import LanguageModel, RecurrentLM, TransformerLM, language_model
from firth.models.network import Network, network
from firth.models.sizes import parameters

__all__ = [
    "AverageConfig",
    "Classifier",
    "Encoder",
    "EncoderConfig",
    "LanguageConfig",
    "LanguageModel",
    "ModelConfig",
    "Network",
    "RecurrentConfig",
    "RecurrentLM",
    "TransformerConfig",
    "TransformerLM",
    "classifier",
    "language_model",
    "network",
    "parameters",
]
