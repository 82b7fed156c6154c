"""Refuse a training that does not fit into memory, before the system kills the process without a message."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from firth.errors import OutOfMemory
from firth.models import Network
from firth.training.config import TrainingConfig

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # the limit of a container
_NUMBER = 4  # bytes of a weight or an activation
_TOKEN = 16  # bytes of a token and its target
_GB = 1 << 30


def physical_memory() -> int | None:
    """Bytes of memory that this machine, or this container, has; None where the system does not tell."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(size, int(_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # "max"
        return size


def expect_room_for(network: Network, config: TrainingConfig, width: int, by_windows: bool) -> None:
    """`network` is one on the meta device. What is counted here is needed in any case: its weights, and of a batch of windows the
    tokens and, for one piece of it, one vector each."""
    weights = _NUMBER * sum(parameter.numel() for parameter in network.parameters())
    _expect(weights, "the weights of this model", "Lower the sizes in [model].")
    if by_windows and (config.device == "cpu" or not torch.cuda.is_available()):
        tokens = config.batch * config.context
        _expect(
            tokens * _TOKEN + tokens // config.accumulate * width * _NUMBER,
            f"the batches of {config.batch:,} × {config.context:,} tokens",
            "Lower training.batch or training.context.",
        )


def _expect(needed: int, what: str, advice: str) -> None:
    there = physical_memory()
    if there is not None and needed > there:
        raise OutOfMemory(f"{what} take at least {needed / _GB:,.0f} GB, and this machine has {there / _GB:,.0f} GB. {advice}")
