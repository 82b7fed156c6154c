"""Constraints on a generated text: one of several choices, a regular expression, or a JSON schema."""
