"""Models: configs in, modules out. `language_model(config, vocab)` builds one, and `step` is how it is read from;
`classifier(config, vocab, classes)` builds the second family, text in, classes out, and `seq2seq(config, source_vocab, vocab)`
the third: one text in, another out; `captioner(config, size, vocab)` the fourth: an image in, a text out."""

from firth.models.caption_config import CaptionModelConfig, RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.captioner import captioner
from firth.models.conditional import ConditionalDecoder, RecurrentDecoder, TransformerDecoder
from firth.models.config import LanguageConfig, RecurrentConfig, TransformerConfig
from firth.models.encoder import encoder
from firth.models.encoder_config import AverageConfig, EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.language import LanguageModel, RecurrentLM, TransformerLM, language_model
from firth.models.network import ModelConfig, Network
from firth.models.prefix import PrefixDecoder
from firth.models.readouts import Classifier, MaskedLM, Readout, TextEmbedder, classifier, masked_lm, text_embedder
from firth.models.seq2seq import seq2seq
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.models.sizes import parameters, size_of

__all__ = [
    "AverageConfig", "CaptionModelConfig", "Classifier", "ConditionalDecoder", "Encoder", "EncoderConfig", "LanguageConfig",
    "LanguageModel", "MaskedLM", "ModelConfig", "Network", "PrefixConfig", "PrefixDecoder", "QuestionAnswerer", "Readout",
    "RecurrentCaptionConfig", "RecurrentConfig", "RecurrentDecoder", "RecurrentEncoderConfig", "RecurrentLM",
    "RecurrentSeq2SeqConfig", "Seq2SeqConfig", "TextEmbedder", "TransformerCaptionConfig", "TransformerConfig",
    "TransformerDecoder", "TransformerEncoderConfig", "TransformerLM", "TransformerSeq2SeqConfig", "captioner", "classifier",
    "encoder", "language_model", "masked_lm", "parameters", "seq2seq", "size_of", "text_embedder",
]  # fmt: skip
