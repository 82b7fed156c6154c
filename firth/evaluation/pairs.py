"""How probable the translations of sentence pairs are. Letters: B batch, T target, V vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from firth.models import Seq2Seq
from firth.progress import Progress, silent
from firth.text.batches.padding import PADDING
from firth.text.batches.pairs import PairBatch, Pairs
from firth.training.loop import precision


@dataclass(frozen=True)
class Likelihood:
    loss: float  # mean nats per token of the targets, each sentence's <eos> among them
    perplexity: float  # e^loss
    tokens: int


def likelihood(
    model: Seq2Seq, pairs: Pairs, *, batch_tokens: int, dtype: str = "float32", progress: Progress = silent
) -> Likelihood:
    """−Σ log p(y_t | y_<t, x) over all pairs, summed in float64; without the smoothing that a training may have."""
    return likelihood_of(model, _told(pairs, batch_tokens, progress), dtype)


def _told(pairs: Pairs, batch_tokens: int, progress: Progress) -> Iterator[PairBatch]:
    done = 0
    for row_B, batch in pairs.sweep(batch_tokens):
        yield batch
        done += len(row_B)
        progress("evaluating", done, len(pairs))


@torch.inference_mode()
def likelihood_of(model: Seq2Seq, batches: Iterable[PairBatch], dtype: str = "float32") -> Likelihood:
    """That of batches, however they were made."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for batch in batches:
        given = (torch.from_numpy(array).to(device) for array in (batch.source_BS, batch.source_length_B, batch.input_BT))
        with precision(device, dtype):
            logits_BTV = model(*given)
        target_BT = torch.from_numpy(batch.target_BT).to(device)
        nats_N = F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten(), ignore_index=PADDING, reduction="none")
        total += float(nats_N.cpu().double().sum())
        tokens += batch.tokens
    model.train(was_training)
    loss = total / tokens
    return Likelihood(loss, math.exp(min(loss, 700.0)), tokens)
