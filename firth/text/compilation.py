"""numba compilation with a cache of its own, in a folder whose name changes whenever the source of a kernel changes."""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

from firth.text.cache import cache_folder, locked


def compiled(function: Callable[..., Any]) -> Any:
    """numba.njit without the GIL; compiled on the first call, or by `compile_once`."""
    return _compiled(function)


def compiled_loosely(function: Callable[..., Any]) -> Any:
    """Like `compiled`, but the compiler may reorder sums, to vectorise them."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def compiled_without_allocation(function: Callable[..., Any]) -> Any:
    """Like `compiled`, but arrays are not reference-counted, which makes calls between such functions cheap. They may not create
    arrays, nor views of them."""
    return _compiled(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of a compiled function, split off for readability and inlined where it is called.

    For integer arguments only: passing an array would update its reference count, atomically, at every call.
    """
    return numba.njit(inline="always", error_model="numpy")(function)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    sources = Path(function.__code__.co_filename).parent
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_folder(sources))  # numba reads it now; restore it for others
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before


@cache
def _folder(sources: Path) -> Path:
    """Named after a hash of all modules in the folder `sources`: numba notices changes in a function's own file, but not in the
    files of the functions it calls."""
    content = b"".join(path.read_bytes() for path in sorted(sources.glob("*.py")))
    folder = cache_folder() / "kernels" / hashlib.sha256(content).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_once(function: Any, signature: Any, compiling: Callable[[], None] | None) -> None:
    """Compile `function` for this signature only. Calls `compiling` first if the result is not in the cache. One process
    compiles while others wait for its result: numba changes the index of its cache without a lock."""
    if function.signatures:
        return
    folder = _folder(Path(function.py_func.__code__.co_filename).parent)
    if compiling is not None and not any(folder.glob(f"*/*.{function.py_func.__name__}-*.nbi")):
        compiling()
    with locked(folder / "lock"):
        function.compile(signature)
    function.disable_compile()
