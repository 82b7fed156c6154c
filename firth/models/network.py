"""What a recipe's [model] says and builds, of whichever family."""

from __future__ import annotations

from firth.models.answer_reader import SpanReader, span_reader
from firth.models.config import LanguageConfig, RecurrentConfig, TransformerConfig
from firth.models.encoder_config import AverageConfig, EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.language import LanguageModel, language_model
from firth.models.point_reader import PointReader, point_reader
from firth.models.readouts import Classifier, MaskedLM, classifier, masked_lm
from firth.models.seq2seq import Seq2Seq, seq2seq
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.models.tagger import Tagger, tagger

ModelConfig = LanguageConfig | EncoderConfig | Seq2SeqConfig
Network = LanguageModel | Classifier | MaskedLM | Tagger | SpanReader | Seq2Seq | PointReader

USUAL = {"language": "next-token", "encoder": "classification", "seq2seq": "translation"}  # what a family learns, unless told


def network(
    config: ModelConfig,
    vocab: int,
    objective: str,
    *,
    classes: int = 0,
    source_vocab: int = 0,
    sentinels: int = 0,
    dimensions: int = 0,
) -> Network:
    """The module for an objective, with weights not yet drawn; `classes` is for those that tell classes apart, `source_vocab` for
    those that read one vocabulary and write another, `sentinels` for those that have such tokens beside the tokenizer's,
    `dimensions` for those that read points."""
    match config, objective:
        case AverageConfig() | RecurrentEncoderConfig() | TransformerEncoderConfig(), "classification":
            return classifier(config, vocab, classes)
        case RecurrentConfig() | TransformerConfig(), "classification":
            return classifier(config, vocab, classes)
        case AverageConfig() | RecurrentEncoderConfig() | TransformerEncoderConfig(), "masked":
            return masked_lm(config, vocab)
        case AverageConfig() | RecurrentEncoderConfig() | TransformerEncoderConfig(), "tagging":
            return tagger(config, vocab, classes)
        case RecurrentEncoderConfig() | TransformerEncoderConfig(), "answer":
            return span_reader(config, vocab)
        case RecurrentConfig() | TransformerConfig(), "next-token" | "in-context":
            return language_model(config, vocab)
        case RecurrentConfig() | TransformerConfig(), "in-context-regression":
            return point_reader(config, dimensions)
        case RecurrentSeq2SeqConfig() | TransformerSeq2SeqConfig() | PrefixConfig(), "translation":
            return seq2seq(config, source_vocab, vocab)
        case RecurrentSeq2SeqConfig() | TransformerSeq2SeqConfig() | PrefixConfig(), "span-corruption":
            return seq2seq(config, vocab + sentinels, vocab + sentinels)
        case _:
            raise ValueError(f"no {type(config).__name__} learns {objective}")  # a recipe's family fits its objective
