"""What a model is trained for: (model, batch) → loss."""
