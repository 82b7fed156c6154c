"""Likelihood of the targets of sentence pairs. Letters: B batch, T target, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.evaluation.by_text import TextCounts, mean_of
from firth.evaluation.inference import inference, perplexity_of, with_progress
from firth.models import ConditionalDecoder
from firth.progress import Progress, silent
from firth.text.batches.captions import CaptionBatch
from firth.text.batches.padding import PADDING
from firth.text.batches.pairs import PairBatch, Pairs
from firth.training.distributed import all_added
from firth.training.loop import precision


@dataclass(frozen=True)
class Likelihood:
    loss: float  # mean nats per target token, including each sentence's <eos>
    perplexity: float  # e^loss
    tokens: int


def likelihood(
    model: ConditionalDecoder, pairs: Pairs, *, batch_tokens: int, dtype: str = "float32", progress: Progress = silent
) -> Likelihood:
    """−Σ log p(y_t | y_<t, x) over all pairs, summed in float64, without label smoothing."""
    parts = with_progress(pairs.sweep(batch_tokens), lambda rows: len(rows[0]), len(pairs), progress)
    return likelihood_of(model, (batch for _, batch in parts), dtype)


def likelihood_of(model: ConditionalDecoder, batches: Iterable[PairBatch | CaptionBatch], dtype: str = "float32") -> Likelihood:
    """The same over any batches, also of captions."""
    total, tokens = 0.0, 0.0
    with inference(model) as device:
        for batch in batches:
            total += float(_nats_BT(model, batch, device, dtype).double().sum())
            tokens += batch.tokens
    total, tokens = all_added(total, tokens)
    loss = total / tokens
    return Likelihood(loss, perplexity_of(loss), int(tokens))


def loss_by_text(model: ConditionalDecoder, pairs: Pairs, *, batch_tokens: int, progress: Progress = silent) -> TextCounts:
    """The loss of `likelihood`, from the nats and the tokens of each target."""
    nats_N, tokens_N = np.zeros(len(pairs)), np.zeros(len(pairs))
    parts = with_progress(pairs.sweep(batch_tokens), lambda rows: len(rows[0]), len(pairs), progress)
    with inference(model) as device:
        for row_B, batch in parts:
            nats_N[row_B] = _nats_BT(model, batch, device, "float32").double().sum(1).numpy()
            tokens_N[row_B] = (batch.target_BT != PADDING).sum(1)
    return mean_of(nats_N, tokens_N)


def _nats_BT(model: ConditionalDecoder, batch: PairBatch | CaptionBatch, device: torch.device, dtype: str) -> Tensor:
    """−log p of each target token, 0 for padding, on the CPU."""
    inputs = (torch.from_numpy(array).to(device) for array in batch.inputs)
    with precision(device, dtype):
        logits_BTV = model(*inputs)
    target_BT = torch.from_numpy(batch.target_BT).to(device)
    nats_N = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), ignore_index=PADDING, reduction="none")
    return nats_N.view_as(target_BT).cpu()
