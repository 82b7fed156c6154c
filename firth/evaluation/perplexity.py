"""Perplexity and bits per character, by two protocols: the whole text once, or random windows; and the loss at each
position of a window.

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
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import DataError, option
from firth.evaluation.inference import inference, perplexity_of, with_progress
from firth.models import LanguageModel
from firth.progress import Progress, silent
from firth.text.batches.token_files import TokenFile
from firth.text.batches.windows import TokenBatch, sweep, sweep_streams
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_added, all_merged, mine, ranks
from firth.training.loop import precision

_LONG = 1_000_000  # tokens: in a stream at least this long, starting without a past hardly matters
_AT_ONCE = 512  # tokens: enough to keep a CPU busy, few enough for logits over any vocabulary


@dataclass(frozen=True)
class Perplexity:
    loss: float  # mean nats per token
    perplexity: float  # e^loss
    bits_per_character: float | None  # None if the tokenizer is lossy
    tokens: int


@dataclass(frozen=True)
class RandomLoss:
    """An estimate of the loss from random windows; some published results use this protocol."""

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
    """Every token but the first is predicted exactly once. A recurrent model carries its state along the text; a Transformer
    processes windows of `context` tokens that do not overlap."""
    count = text.count - 1
    if model.carries:
        windows = _own_streams(sweep_streams(text.ids, batch, context), count, progress)
    else:
        windows = with_progress(sweep(text.ids, batch, context), lambda window: window.target_BT.size, count, progress)
    total, predicted = all_added(*total_nats(model, windows, dtype))
    tokens = int(predicted)
    loss = total / tokens
    characters = text.characters * tokens / text.count  # the first token is not predicted
    bits_per_character = total / math.log(2) / characters if lossless and characters else None
    return Perplexity(loss, perplexity_of(loss), bits_per_character, tokens)


def _own_streams(windows: Iterator[TokenBatch], total: int, progress: Progress) -> Iterator[TokenBatch]:
    """The streams of this process: a state is carried from window to window, so it is the rows that processes share."""
    done = 0
    for window in windows:
        rows = ranks().share(len(window.input_BT))
        if rows.stop > rows.start:
            yield TokenBatch(window.input_BT[rows], window.target_BT[rows], window.fresh)
        done += window.target_BT.size
        progress("evaluating", done, total)


def stream_shape(text: TokenFile, streams: int | None, context: int) -> tuple[int, int]:
    """(batch, context) for `perplexity` to process a text in `streams` streams; None: one stream, unless the text is very long.

    A recurrent model carries its state, so windows of any length give the same sum and may be longer than in training. The
    number of streams does change it, because each stream starts without a past. No stream is shorter than the training context.
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
    """`batches` batches of `batch` windows; the start of each window is drawn uniformly, with replacement.

    Every window starts without a past, also for a recurrent model.
    """
    loss_of: dict[int, float] = {}
    for number, window in enumerate(_random_windows(text, batches, batch, context, seed)):
        if mine(number):
            total, tokens = total_nats(model, [window], dtype)
            loss_of[number] = total / tokens
        progress("random batches", number + 1, batches)
    loss_of = all_merged(loss_of)
    losses = [loss_of[number] for number in range(batches)]
    error = float(np.std(losses, ddof=1)) / math.sqrt(batches) if batches > 1 else None
    return RandomLoss(math.fsum(losses) / batches, error, batches)


def _random_windows(text: TokenFile, batches: int, batch: int, context: int, seed: int) -> Iterator[TokenBatch]:
    starts = text.count - context  # a window needs a target after its last token
    if starts < 1:
        raise DataError(
            f"the text has {text.count:,} tokens, but a random window of training.context = {context} needs at least "
            f"{context + 1:,}. Give a longer text or omit {option('random_batches')}"
        )
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        start_B1 = torch.randint(starts, (batch, 1), generator=generator).numpy()
        token_BT = np.asarray(text.ids[start_B1 + np.arange(context + 1)], np.int64)
        yield TokenBatch(token_BT[:, :-1], token_BT[:, 1:], fresh=True)


def total_nats(model: LanguageModel, windows: Iterable[TokenBatch], dtype: str = "float32") -> tuple[float, int]:
    """−Σ log p(target) over all windows, summed in float64, and the number of targets."""
    with inference(model) as device:
        place = torch.device("cpu") if device.type == "mps" else device  # MPS has no float64
        total, tokens = torch.zeros((), dtype=torch.float64, device=place), 0
        for logits_BTV, target_BT, _ in _read(model, windows, device, dtype):
            nats = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), reduction="sum")
            total += nats.to(place, torch.float64)  # stays on the device: no wait for a GPU in every window
            tokens += target_BT.numel()
    return float(total), tokens


def nats_by_token(
    model: LanguageModel, text: TokenFile, *, batch: int, context: int, progress: Progress = silent
) -> NDArray[np.float32]:
    """−log p of every token but the first, in the order of the text; read as by `perplexity`, in one process."""
    count = text.count - 1
    windows = (sweep_streams if model.carries else sweep)(text.ids, batch, context)
    shown = with_progress(windows, lambda window: window.target_BT.size, count, progress)
    streams: list[list[NDArray[np.float32]]] = []  # windows side by side that follow each other
    with inference(model) as device:
        for logits_BTV, target_BT, fresh in _read(model, shown, device, "float32"):
            nats_N = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), reduction="none")
            if fresh:
                streams.append([])
            streams[-1].append(nats_N.view_as(target_BT).cpu().numpy())
    return np.concatenate([np.concatenate(windows, 1).reshape(-1) for windows in streams])


def _read(
    model: LanguageModel, windows: Iterable[TokenBatch], device: torch.device, dtype: str
) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """The logits of each window, its targets, and whether it began without a past."""
    state: Any = None
    for window in windows:
        with precision(device, dtype):
            logits_BTV, state = model(_tensor(window.input_BT, device), None if window.fresh else state)
        yield logits_BTV, _tensor(window.target_BT, device), window.fresh


def _tensor(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)


def loss_by_position(
    model: LanguageModel, ids: Ids, *, batch: int, context: int, progress: Progress = silent
) -> NDArray[np.float64]:
    """Mean nats at positions 0 … context − 1, over windows that do not overlap: the loss with little context, and beyond the
    trained length. Tokens that do not fill a window are left out."""
    windows = (len(ids) - 1) // context
    if windows < 1:
        raise DataError(
            f"the text has {len(ids):,} tokens, but a window of {context:,} needs {context + 1:,}. Give a longer text."
        )
    total_T: NDArray[np.float64] = np.zeros(context)
    batches = sweep(ids[: windows * context + 1], batch, context)
    with inference(model) as device:
        for window in with_progress(batches, lambda window: window.target_BT.size, windows * context, progress):
            target_BT = torch.from_numpy(window.target_BT).to(device)
            logits_BTV, _ = model(torch.from_numpy(window.input_BT).to(device))
            nats_N = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), reduction="none")
            total_T += nats_N.view_as(target_BT).cpu().double().sum(0).numpy()
    return total_T / windows
