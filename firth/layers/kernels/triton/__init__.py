"""Kernels for a GPU, in Triton, which is imported when a kernel is first needed: files that are asked before what their kernels
can compute take Triton from lazy.py, and the others are themselves imported late."""
