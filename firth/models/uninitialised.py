"""Build a network whose weights are to be replaced at once: no initial values are computed, and no memory is touched for them.

Unlike on the meta device, tables that are computed, such as rotary angles, are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode


class Uninitialised(TorchFunctionMode):
    """A context in which the functions of torch.nn.init do nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0]
        return func(*args, **(kwargs or {}))
