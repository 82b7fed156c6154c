"""What a generated text must match: one of several choices, a regular expression, or a JSON schema."""
