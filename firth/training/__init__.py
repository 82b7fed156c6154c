"""Training: from a model, a loss and batches to checkpoints on disk."""
