"""Token ids on disk, and batches of them whose position is one integer."""
