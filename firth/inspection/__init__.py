"""Looks into a model: (model, text) → plain data. A look never changes how the model runs."""
