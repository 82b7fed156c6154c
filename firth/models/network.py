"""What a recipe's [model] says and builds, of whichever family."""

from __future__ import annotations

from firth.models.config import LanguageConfig, RecurrentConfig, TransformerConfig
from firth.models.encoder_config import AverageConfig, EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.language import LanguageModel, language_model
from firth.models.readouts import Classifier, classifier
from firth.models.seq2seq import Seq2Seq, seq2seq
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig

ModelConfig = LanguageConfig | EncoderConfig | Seq2SeqConfig
Network = LanguageModel | Classifier | Seq2Seq

USUAL = {"language": "next-token", "encoder": "classification", "seq2seq": "translation"}  # what a family learns, unless told


def network(config: ModelConfig, vocab: int, objective: str, *, classes: int = 0, source_vocab: int = 0) -> Network:
    """The module for an objective, with weights not yet drawn; `classes` is for those that tell classes apart, `source_vocab` for
    those that read one vocabulary and write another."""
    match config, objective:
        case AverageConfig() | RecurrentEncoderConfig() | TransformerEncoderConfig(), "classification":
            return classifier(config, vocab, classes)
        case RecurrentConfig() | TransformerConfig(), "next-token":
            return language_model(config, vocab)
        case RecurrentSeq2SeqConfig() | TransformerSeq2SeqConfig(), "translation":
            return seq2seq(config, source_vocab, vocab)
        case _:
            raise ValueError(f"no {type(config).__name__} learns {objective}")  # a recipe's family fits its objective
