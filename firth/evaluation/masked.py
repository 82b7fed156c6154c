"""Loss and accuracy of a masked language model on its masked tokens. Letters: B batch, M masked positions, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from firth.errors import DataError
from firth.evaluation.inference import inference, perplexity_of, with_progress
from firth.models import MaskedLM
from firth.progress import Progress, silent
from firth.text.batches.masking import Masking, masked_sweep
from firth.text.batches.padding import PADDING
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_added
from firth.training.loop import precision

_LOGITS = 1 << 25  # in memory at once


@dataclass(frozen=True)
class MaskedMeasures:
    loss: float  # mean nats per masked token
    perplexity: float  # e^loss
    accuracy: float  # fraction of the masked tokens that are the model's most probable token
    tokens: int  # masked tokens


def evaluate(
    model: MaskedLM, ids: Ids, masking: Masking, *, batch: int, context: int, dtype: str = "float32", progress: Progress = silent
) -> MaskedMeasures:
    """Over the whole text, in windows of `context` tokens that do not overlap. Which tokens are masked depends only on the
    position in the text and on `masking`, so that every model sees the same masks. Summed in float64."""
    batch = max(1, min(batch, _LOGITS // (masking.count(context) * model.vocab)))
    windows = with_progress(masked_sweep(ids, batch, context, masking), lambda part: part.tokens, len(ids), progress)
    total, right, count = 0.0, 0.0, 0.0
    with inference(model) as device:
        for part in windows:
            arrays = part.token_BT, part.place_BM, part.target_BM
            token_BT, place_BM, target_BM = (torch.from_numpy(array).to(device) for array in arrays)
            with precision(device, dtype):
                logits_BMV = model(token_BT, place_BM=place_BM)
            logits_NV, target_N = logits_BMV.flatten(0, 1).float(), target_BM.flatten()
            total += float(F.cross_entropy(logits_NV, target_N, ignore_index=PADDING, reduction="none").double().sum())
            right += int((logits_NV.argmax(-1) == target_N).sum())
            count += part.places
    total, right, count = all_added(total, right, count)
    if not count:
        raise DataError(f"none of the {len(ids):,} tokens of the text can be masked; they are all special tokens such as <unk>")
    return MaskedMeasures(total / count, perplexity_of(total / count), right / count, int(count))
