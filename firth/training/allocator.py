"""Make glibc keep the large blocks of memory that every training step frees and allocates again.

By default glibc returns such blocks to the system, and the next step pays for them with thousands of page faults.
benchmarks/cpu_operations.py measures the difference."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>


def keep_freed_memory() -> None:
    """Set the thresholds for the rest of this process. Does nothing unless the C library is glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
