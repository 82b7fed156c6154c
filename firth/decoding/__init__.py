"""Sampling and beam search for any model with step(). Works on token ids, not on text."""
