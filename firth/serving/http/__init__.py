"""The HTTP API: OpenAI's addresses for language models, and firth's own for what OpenAI has no word for."""
