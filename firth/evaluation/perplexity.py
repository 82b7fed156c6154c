"""Perplexity and bits per character, by two protocols: the whole text once, and windows drawn at random.

Letters: B batch, T time, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import DataError
from firth.models import LanguageModel
from firth.progress import Progress, silent
from firth.text import TokenFile
from firth.text.batches.windows import Batch, sweep, sweep_streams
from firth.training.loop import precision

_LONG = 1_000_000  # tokens: a stream at least this long does not notice that it began afresh
_AT_ONCE = 512  # tokens: enough to keep a CPU busy, few enough for logits over any vocabulary


@dataclass(frozen=True)
class Perplexity:
    loss: float  # mean nats per token
    perplexity: float  # e^loss
    bits_per_character: float | None  # None for a tokenizer that loses something
    tokens: int


@dataclass(frozen=True)
class RandomLoss:
    """An estimate of the loss from windows that start anywhere, as some publish it."""

    loss_random: float  # mean over the batches of their mean nats per token
    loss_random_error: float | None  # its standard error, s / √N; None for a single batch
    random_batches: int


def perplexity(
    model: LanguageModel,
    text: TokenFile,
    *,
    lossless: bool,
    batch: int,
    context: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> Perplexity:
    """Every token but the first is predicted exactly once: by a recurrent model with its state carried along the text,
    by a Transformer in windows of `context` tokens that do not overlap."""
    windows = sweep_streams(text.ids, batch, context) if model.carries else sweep(text.ids, batch, context)
    total, tokens = total_nats(model, _told(windows, text.count - 1, progress), dtype)
    loss = total / tokens
    characters = text.characters * tokens / text.count  # the first token's share is not predicted
    return Perplexity(
        loss, math.exp(min(loss, 700.0)), total / math.log(2) / characters if lossless and characters else None, tokens
    )


def stream_shape(text: TokenFile, streams: int | None, context: int) -> tuple[int, int]:
    """(batch, context) with which `perplexity` reads a text in `streams` streams; None: as one, unless it is very long.

    With its state carried, a recurrent model gives the same sum in windows of any length: they may be longer than those it was
    trained in. Streams are not: each begins without a past. None is made shorter than the training's context.
    """
    predicted = text.count - 1
    wanted = max(1, predicted // _LONG) if streams is None else streams
    rows = max(1, min(wanted, predicted // context))
    return rows, max(1, min(predicted // rows, max(context, _AT_ONCE // rows)))


def random_loss(
    model: LanguageModel,
    text: TokenFile,
    batches: int,
    *,
    batch: int,
    context: int,
    seed: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> RandomLoss:
    """`batches` batches of `batch` windows, each window at any start with equal probability, drawn with replacement.

    Every window begins without a past, for a recurrent model, too.
    """
    losses = []
    for window in _random_windows(text, batches, batch, context, seed):
        total, tokens = total_nats(model, [window], dtype)
        losses.append(total / tokens)
        progress("random batches", len(losses), batches)
    error = float(np.std(losses, ddof=1)) / math.sqrt(batches) if batches > 1 else None
    return RandomLoss(math.fsum(losses) / batches, error, batches)


def _random_windows(text: TokenFile, batches: int, batch: int, context: int, seed: int) -> Iterator[Batch]:
    starts = text.count - context  # a window has a target after its last token
    if starts < 1:
        raise DataError(
            f"the text has {text.count:,} tokens, but a random window of training.context = {context} needs at least "
            f"{context + 1:,}; give a longer text, or leave --random-batches out"
        )
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        start_B1 = torch.randint(starts, (batch, 1), generator=generator).numpy()
        token_BT = np.asarray(text.ids[start_B1 + np.arange(context + 1)], np.int64)
        yield Batch(token_BT[:, :-1], token_BT[:, 1:], fresh=True)


def _told(windows: Iterable[Batch], total: int, progress: Progress) -> Iterator[Batch]:
    done = 0
    for window in windows:
        yield window
        done += window.target_BT.size
        progress("evaluating", done, total)


@torch.inference_mode()
def total_nats(model: LanguageModel, windows: Iterable[Batch], dtype: str = "float32") -> tuple[float, int]:
    """−Σ log p(target) over all windows, summed in float64, and the number of targets."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    place = torch.device("cpu") if device.type == "mps" else device  # which has no float64
    total, tokens = torch.zeros((), dtype=torch.float64, device=place), 0
    state: Any = None
    for window in windows:
        with precision(device, dtype):
            logits_BTV, state = model(_tensor(window.input_BT, device), None if window.fresh else state)
        target_BT = _tensor(window.target_BT, device)
        nats = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), reduction="sum")
        total += nats.to(place, torch.float64)  # left where it is: a GPU is not waited for in every window
        tokens += target_BT.numel()
    model.train(was_training)
    return float(total), tokens


def _tensor(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
