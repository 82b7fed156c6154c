"""Perplexity and bits per character. Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.models import LanguageModel
from firth.text import TokenFile
from firth.text.batches import Batch, sweep, sweep_streams
from firth.text.progress import Progress, silent
from firth.training.loop import precision


@dataclass(frozen=True)
class Perplexity:
    loss: float  # mean nats per token
    perplexity: float  # e^loss
    bits_per_character: float | None  # None for a tokenizer that loses something
    tokens: int


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
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    state: Any = None
    for window in windows:
        with precision(device, dtype):
            logits_BTV, state = model(_tensor(window.input_BT, device), None if window.fresh else state)
        target_BT = _tensor(window.target_BT, device)
        total += F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), reduction="sum").double().cpu()
        tokens += target_BT.numel()
    model.train(was_training)
    return float(total), tokens


def _tensor(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
