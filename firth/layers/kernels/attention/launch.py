"""Launch a Triton kernel without inspecting its arguments each time.

Triton finds the compiled form by the types of all arguments, whether pointers are aligned, and which numbers are 1 or divisible
by 16. In Python that takes longer than our smaller kernels run; here the same facts are the key of one dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

_COMPILED: dict[tuple[Any, ...], Any] = {}


def launch(kernel: Any, programs: int, device: int, args: tuple[Any, ...], constants: Hashable, **options: Any) -> None:
    """kernel[programs](*args, constants, **options), where `constants` are all that the kernel is compiled for."""
    grid = (programs, 1, 1)
    if isinstance(kernel, InterpretedFunction):
        kernel[grid](*args, constants, **options)
        return
    facts: list[Any] = [kernel, device, constants, *options.values()]
    _note(args, facts)
    key = tuple(facts)
    compiled = _COMPILED.get(key)
    if compiled is None:
        _COMPILED[key] = kernel[grid](*args, constants, **options)  # compiles it if needed, and runs it
    else:
        compiled[grid](*args, constants)


def _note(args: tuple[Any, ...], facts: list[Any]) -> None:
    for arg in args:
        if isinstance(arg, Tensor):
            facts.append(arg.dtype)
            facts.append(arg.data_ptr() % 16 == 0)
        elif type(arg) is int:
            facts.append(arg if arg == 1 else (arg % 16 == 0, -(2**31) <= arg < 2**31))
        elif isinstance(arg, tuple):
            _note(arg, facts)
        else:
            facts.append(type(arg))
