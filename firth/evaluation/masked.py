"""How well hidden tokens are found again. Letters: B batch, M masked places, V vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from firth.errors import DataError
from firth.models import MaskedLM
from firth.progress import Progress, silent
from firth.text.batches.masking import Masking, masked_sweep
from firth.text.batches.padding import PADDING
from firth.text.tokenizers.special_tokens import Ids
from firth.training.loop import precision

_LOGITS = 1 << 25  # held at once


@dataclass(frozen=True)
class Found:
    loss: float  # mean nats per masked token
    perplexity: float  # e^loss
    accuracy: float  # share of the masked tokens that are the most probable at their place
    tokens: int  # that were masked


@torch.inference_mode()
def found_again(
    model: MaskedLM,
    ids: Ids,
    masking: Masking,
    *,
    batch: int,
    context: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> Found:
    """Over the whole text, in windows of `context` tokens that do not overlap. What is masked depends on the place in the text
    and on `masking` alone, so that all models are asked the same. Summed in float64."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    batch = max(1, min(batch, _LOGITS // (masking.count(context) * model.vocab)))
    total, right, count, read = 0.0, 0, 0, 0
    for part in masked_sweep(ids, batch, context, masking):
        token_BT, place_BM, target_BM = (torch.from_numpy(a).to(device) for a in (part.token_BT, part.place_BM, part.target_BM))
        with precision(device, dtype):
            logits_BMV = model(token_BT, place_BM=place_BM)
        logits_NV, target_N = logits_BMV.flatten(0, 1).float(), target_BM.flatten()
        total += float(F.cross_entropy(logits_NV, target_N, ignore_index=PADDING, reduction="none").double().sum())
        right += int((logits_NV.argmax(-1) == target_N).sum())
        count += part.places
        read += part.tokens
        progress("evaluating", read, len(ids))
    model.train(was_training)
    if not count:
        raise DataError(f"none of the {len(ids):,} tokens of the text can be masked; expected some that are not <eos> or <unk>")
    return Found(total / count, math.exp(min(total / count, 700.0)), right / count, count)
