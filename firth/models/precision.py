"""The types that weights can have in memory and in files."""

from __future__ import annotations

from typing import Literal

import torch

from firth.errors import ConfigError

Precision = Literal["float32", "bf16", "float16"]
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "float16": torch.float16}


def check_precision(dtype: str) -> None:
    if dtype not in DTYPES:
        raise ConfigError(f'unknown dtype "{dtype}"; choose one of: {", ".join(DTYPES)}')
