"""Studies: a claim of the literature as a comparison that one command repeats."""
