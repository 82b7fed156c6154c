"""Many requests at once, in one batch."""
