"""Slow, plain float64 implementations of the published equations: the reference that fast code is tested against."""
