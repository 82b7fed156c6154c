"""Every step asks for the same large blocks. glibc returns such blocks to the system when they are freed and has them faulted
in, page by page, at the next step: thousands of page faults, unless it is told to keep them. What that is worth in time is
printed by benchmarks/cpu_operations.py."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>


def keep_freed_memory() -> None:
    """For this process, from now on. Does nothing where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
