"""Records of runs: what a run folder says about a run without loading its weights, lists of runs, and their differences."""
