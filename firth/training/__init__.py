"""From a model, an objective and batches to trained weights on disk."""
