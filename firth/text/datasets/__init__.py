"""Named data sets: the catalog, downloads, and the sets that are generated on the spot."""
