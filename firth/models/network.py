"""What a recipe's [model] says and builds, of whichever family."""

from __future__ import annotations

from firth.models.config import LanguageConfig
from firth.models.encoder import Classifier, classifier
from firth.models.encoder_config import EncoderConfig
from firth.models.language import LanguageModel, language_model
from firth.models.seq2seq import Seq2Seq, seq2seq
from firth.models.seq2seq_config import Seq2SeqConfig

ModelConfig = LanguageConfig | EncoderConfig | Seq2SeqConfig
Network = LanguageModel | Classifier | Seq2Seq


def network(config: ModelConfig, vocab: int, *, classes: int = 0, source_vocab: int = 0) -> Network:
    """The module, with weights not yet drawn; `classes` is for those that tell classes apart, `source_vocab` for those that
    read one vocabulary and write another."""
    if isinstance(config, EncoderConfig):
        return classifier(config, vocab, classes)
    if isinstance(config, LanguageConfig):
        return language_model(config, vocab)
    return seq2seq(config, source_vocab, vocab)
