"""Models: configs in, modules out. `language_model(config, vocab)` builds one; `step` is how every one of them is read from."""

from firth.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from firth.models.language import LanguageModel, RecurrentLM, TransformerLM, language_model
from firth.models.sizes import parameters

__all__ = [
    "LanguageModel",
    "ModelConfig",
    "RecurrentConfig",
    "RecurrentLM",
    "TransformerConfig",
    "TransformerLM",
    "language_model",
    "parameters",
]
