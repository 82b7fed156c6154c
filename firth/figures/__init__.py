"""Plain data → figures. Colours are colour-blind-safe; every figure also provides its numbers as a table."""
