"""Text: corpora, tokenizers, token files, and batches with a position that is one integer."""

from firth.progress import Progress
from firth.text.batches.cache import cache_folder
from firth.text.batches.token_files import TokenFile, token_file
from firth.text.batches.windows import Batch, Streams, Windows, sweep, sweep_streams
from firth.text.config import (
    DataConfig,
    LabelledConfig,
    LinearConfig,
    PairsConfig,
    QuestionsConfig,
    SwapsConfig,
    TaggedConfig,
    TokenizerConfig,
)
from firth.text.data.running_text import Prepared, encode_file, prepare, read_text
from firth.text.datasets.docs import docs_corpus
from firth.text.readers.corpus import Corpus, Piece, Scan, find, inline, scan
from firth.text.tokenizers.tokenizer import Tokenizer

__all__ = [
    "Batch",
    "Corpus",
    "DataConfig",
    "LabelledConfig",
    "LinearConfig",
    "PairsConfig",
    "Piece",
    "Prepared",
    "Progress",
    "QuestionsConfig",
    "Scan",
    "Streams",
    "SwapsConfig",
    "TaggedConfig",
    "TokenFile",
    "Tokenizer",
    "TokenizerConfig",
    "Windows",
    "cache_folder",
    "docs_corpus",
    "encode_file",
    "find",
    "inline",
    "prepare",
    "read_text",
    "scan",
    "sweep",
    "sweep_streams",
    "token_file",
]
