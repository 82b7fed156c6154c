"""Parts of all evaluations: a model in evaluation mode, progress over batches, the perplexity of a loss."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch import nn

from firth.progress import Progress
from firth.training.distributed import mine

B = TypeVar("B")


@contextlib.contextmanager
def inference(model: nn.Module) -> Iterator[torch.device]:
    """Evaluation mode without gradients; yields the model's device and restores the previous mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield next(model.parameters()).device
    finally:
        model.train(was_training)


def with_progress(batches: Iterable[B], size: Callable[[B], int], total: int, progress: Progress) -> Iterator[B]:
    """The batches; after each has been processed, `progress` learns how many of `total` items are done. Of several processes each
    gets every n-th batch, and what they find must be put together (training/distributed.py)."""
    done = 0
    for number, batch in enumerate(batches):
        if mine(number):
            yield batch
        done += size(batch)
        progress("evaluating", done, total)


def perplexity_of(loss: float) -> float:
    """e^loss, without an overflow for the loss of a diverged model."""
    return math.exp(min(loss, 700.0))
