"""Text: corpora, tokenizers, token files, and batches with a position that is one integer."""

from firth.text.batches import Batch, Streams, Windows, sweep, sweep_streams
from firth.text.cache import cache_folder
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.corpus import Corpus, Piece, Scan, find, inline, scan
from firth.text.docs import docs_corpus
from firth.text.prepare import Prepared, encode_file, prepare, read_text
from firth.text.progress import Progress
from firth.text.tokenizers import Tokenizer
from firth.text.tokens import TokenFile, token_file

__all__ = [
    "Batch",
    "Corpus",
    "DataConfig",
    "Piece",
    "Prepared",
    "Progress",
    "Scan",
    "Streams",
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
