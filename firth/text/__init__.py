"""Text: readers, tokenizers, token files, data sets, and batches whose position is one integer."""
