"""Steps that a GPU records and replays."""
