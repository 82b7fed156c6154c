"""numba with its compiled code kept in firth's cache, under a name that changes whenever a source of the kernels does."""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """numba.njit without Python's lock; compiled when first called, or by `compile_once`."""
    return _compiled(function)


def compiled_loosely(function: Callable[..., Any]) -> Any:
    """As `compiled`, but sums may be taken in another order, several terms at a time."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def inlined(function: Callable[..., Any]) -> Any:
    """A part of a compiled function, written apart to be read and compiled once, where it is called.

    For whole numbers only: an array handed over would have its users counted, atomically, at every call.
    """
    return numba.njit(inline="always", error_model="numpy")(function)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    found, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_folder())  # numba reads it now, and others use it too
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = found


@cache
def _folder() -> Path:
    """numba notices that the file of a function has changed, but not the files of the functions that it calls."""
    from firth.text.cache import cache_folder

    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    folder = cache_folder() / "kernels" / hashlib.sha256(sources).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_once(function: Any, signature: Any, compiling: Callable[[], None] | None) -> None:
    """Have `function` ready for this signature and no other; `compiling` is called first if it is not in the cache."""
    if function.signatures:
        return
    if compiling is not None and not _cached(function):
        compiling()
    function.compile(signature)
    function.disable_compile()


def _cached(function: Any) -> bool:
    return any(_folder().glob(f"*/*.{function.py_func.__name__}-*.nbi"))
