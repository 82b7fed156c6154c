"""Metrics of a model on held-out data."""
