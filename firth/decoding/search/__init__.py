"""Searches: beams, drafts, and many texts until their ends."""
