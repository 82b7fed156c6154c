"""Plain data → figures. Colours are safe for colour-blind eyes; every figure can also give its numbers as a table."""
