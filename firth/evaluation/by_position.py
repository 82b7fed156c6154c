"""The loss at each position of a window: how a model fares with little context, and beyond the length it was trained on.

Letters: B batch, T time, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from firth.errors import DataError
from firth.evaluation.inference import inference, with_progress
from firth.models import LanguageModel
from firth.progress import Progress, silent
from firth.text.batches.windows import sweep
from firth.text.tokenizers.special_tokens import Ids


def loss_by_position(
    model: LanguageModel, ids: Ids, *, batch: int, context: int, progress: Progress = silent
) -> NDArray[np.float64]:
    """Mean nats at positions 0 … context − 1, over windows that do not overlap. Tokens that do not fill a window are left out."""
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
