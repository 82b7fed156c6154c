"""Triton's interpreter, mended: what the tests of the fused kernels need where there is no GPU (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture
def triton_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scalars are arrays of one element, which numpy ≥ 2.4 no longer takes for an index; and a launch takes half as long if
    the language is patched once per module, not at each call of a function."""
    if not INTERPRETED:
        return
    from triton.runtime import interpreter

    patch_tensor, patch = interpreter._patch_lang_tensor, interpreter._patch_lang
    modules: set[int] = set()

    def patch_tensor_and_index(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def patch_once(function: Any) -> Any:
        launch = not modules
        if id(function.__globals__) in modules:
            return None
        modules.add(id(function.__globals__))
        scope = patch(function)
        if launch:
            restore = scope.restore
            scope.restore = lambda: (modules.clear(), restore())
        return scope

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patch_tensor_and_index)
    monkeypatch.setattr(interpreter, "_patch_lang", patch_once)
