"""Triton for files of kernels that are imported without it, because they also say what their kernels can compute (`why_not`).

Such a file takes `triton`, `tl`, `jit` and the like from here, and its functions call `import_triton(__name__)` before they
launch a kernel. The first call replaces these names, and those of the kernels, by Triton's own: from then on the file is as if
it had imported Triton itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

_lock = RLock()
_files: set[str] = set()  # those with Triton


class Late:
    """A name in a file of kernels until Triton is imported; `value` imports it."""

    def __init__(self, make: Callable[[], Any], file: str = "") -> None:
        self._make, self.file = make, file

    @cached_property
    def value(self) -> Any:
        return self._make()


def import_triton(file: str) -> None:
    """`file`: the module of the kernels that are about to be launched. They may call those of others."""
    if file in _files:
        return
    with _lock:
        names = vars(sys.modules[file])
        missing = {name: value for name, value in names.items() if isinstance(value, Late)}
        names.update({name: value.value for name, value in missing.items()})
        for other in {value.file for value in missing.values()} - {file, ""}:
            import_triton(other)
        _files.add(file)


# torch.compile calls it as it traces. This is what torch.compiler.assume_constant_result does, which imports torch's compiler.
import_triton._dynamo_marked_constant = True  # type: ignore[attr-defined]


def late(module: str, name: str) -> Any:
    """The imports of a file of kernels from another one, or from Triton."""
    return Late(lambda: getattr(import_module(module), name))


gdc_launch_dependents = late("triton.language.extra.cuda", "gdc_launch_dependents")
gdc_wait = late("triton.language.extra.cuda", "gdc_wait")
if TYPE_CHECKING:
    import triton
    import triton.language as tl
    from triton import jit
else:
    triton, tl = Late(lambda: import_module("triton")), Late(lambda: import_module("triton.language"))

    def jit(function=None, **options):
        if function is None:
            return lambda function: jit(function, **options)
        return Late(lambda: triton.value.jit(function, **options), function.__module__)


__all__ = ["gdc_launch_dependents", "gdc_wait", "import_triton", "jit", "late", "tl", "triton"]
