"""Run a kernel on torch's threads. Threads of another pool would compete with torch's, which wait for work by spinning."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch


def run(kernel: int, fields: Sequence[int]) -> None:
    """Call the function at the address `kernel` on every thread with the address of `fields`, after a counter that is 0."""
    array = (ctypes.c_int64 * (len(fields) + 1))(0, *fields)
    parallel = _parallel()
    assert parallel is not None
    parallel(kernel, ctypes.addressof(array), torch.get_num_threads(), 0)


def why_not() -> str | None:
    if _parallel() is None:
        return "torch does not come with GNU's OpenMP library, whose threads run the kernels"
    return None


@cache
def _parallel() -> Callable[..., Any] | None:
    """GOMP_parallel(function, argument, threads, flags) of the library that torch has loaded."""
    if sys.platform != "linux":
        return None
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        parallel = ctypes.CDLL(str(path)).GOMP_parallel
        parallel.argtypes, parallel.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
        return parallel  # type: ignore[no-any-return]
    return None
