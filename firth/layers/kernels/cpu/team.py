"""Run a kernel on torch's threads. Threads of another pool would compete with torch's, which wait for work by spinning."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

from firth.layers.kernels.cpu.code import Compiled


def run(kernel: Compiled, fields: Sequence[int]) -> None:
    """Call `kernel` on every thread with the address of `fields`. Machine code lives as long as its object: keep it."""
    array = (ctypes.c_int64 * len(fields))(*fields)
    library = _library()
    assert library is not None
    library.GOMP_parallel(kernel.address, ctypes.addressof(array), torch.get_num_threads(), 0)


@cache
def barrier() -> int:
    """The address of a function that waits for the other threads."""
    address = ctypes.cast(_library().GOMP_barrier, ctypes.c_void_p).value  # type: ignore[union-attr]
    assert address is not None
    return address


def bits(number: float) -> int:
    """The bits of a float32 number."""
    pattern: int = struct.unpack("<i", struct.pack("<f", number))[0]
    return pattern


def why_not() -> str | None:
    if _library() is None:
        return "llvmlite or torch's OpenMP library (GNU) is missing"
    return None


@cache
def _library() -> ctypes.CDLL | None:
    """GNU's OpenMP, as torch has loaded it: GOMP_parallel(function, argument, threads, flags)."""
    if sys.platform != "linux" or find_spec("llvmlite") is None:
        return None
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        library = ctypes.CDLL(str(path))
        library.GOMP_parallel.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
        library.GOMP_parallel.restype = None
        return library
    return None
