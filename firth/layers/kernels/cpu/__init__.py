"""Kernels for a decoding step on a CPU, written in LLVM IR (code.py) and compiled when first used, in about a tenth of a second.

A kernel is a function of one argument, the address of an array of int64: addresses of tensors, sizes, and at place 0 a counter
from which threads take their pieces of work. team.py runs it on torch's own threads.
"""
