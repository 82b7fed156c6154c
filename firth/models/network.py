"""What a recipe's [model] builds, of whichever family."""

from __future__ import annotations

from firth.models.config import EncoderConfig, ModelConfig
from firth.models.encoder import Classifier, classifier
from firth.models.language import LanguageModel, language_model

Network = LanguageModel | Classifier


def network(config: ModelConfig, vocab: int, classes: int) -> Network:
    """The module, with weights not yet drawn; `classes` is for those that tell classes apart."""
    return classifier(config, vocab, classes) if isinstance(config, EncoderConfig) else language_model(config, vocab)
