"""Text ↔ token ids: characters, words, byte pairs, word pieces, unigrams."""
