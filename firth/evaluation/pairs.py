"""Likelihood of the targets of sentence pairs. Letters: B batch, T target, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

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
            inputs = (torch.from_numpy(array).to(device) for array in batch.inputs)
            with precision(device, dtype):
                logits_BTV = model(*inputs)
            logits_NV, target_N = logits_BTV.flatten(0, 1).float(), torch.from_numpy(batch.target_BT).to(device).flatten()
            nats_N = F.cross_entropy(logits_NV, target_N, ignore_index=PADDING, reduction="none")
            total += float(nats_N.cpu().double().sum())
            tokens += batch.tokens
    total, tokens = all_added(total, tokens)
    loss = total / tokens
    return Likelihood(loss, perplexity_of(loss), int(tokens))
