"""What firth reads and writes for other tools, one file per format."""
