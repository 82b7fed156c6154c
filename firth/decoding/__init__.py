"""From a model to tokens, for anything with step(): knows token ids, no text."""
