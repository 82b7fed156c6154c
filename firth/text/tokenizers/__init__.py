"""Text ↔ token ids: characters, words, byte pairs, word pieces, unigrams."""

from firth.text.tokenizers.tokenizer import Tokenizer as Tokenizer
