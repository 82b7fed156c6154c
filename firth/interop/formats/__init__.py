"""The formats of other tools that firth reads and writes, one file per format."""
