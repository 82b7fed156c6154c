"""Inspect a model on a text: (model, text) → plain data. Inspection never changes how the model runs."""
