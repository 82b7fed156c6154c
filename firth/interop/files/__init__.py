"""The files that public models come in, and what stands in them."""
