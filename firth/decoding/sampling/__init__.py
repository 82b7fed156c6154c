"""Choose the next token: one file per filter, applied in the order in which DecodingConfig lists them."""
