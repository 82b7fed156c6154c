"""Its place makes pytest look for modules here, so that tests/faults/attacks can import bad_files.py."""
