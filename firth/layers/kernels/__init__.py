"""Fast paths made by hand. Each computes what the layers beside this folder say, and nothing else."""
