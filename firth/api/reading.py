"""log p of each token of a text, however long. Letters: T time, V vocabulary."""

from __future__ import annotations

import numpy as np
import torch

from firth.models import LanguageModel
from firth.text.progress import Progress, silent

_PIECE = 1024  # tokens read at once by a model without an end


@torch.inference_mode()
def read_log_probabilities(
    network: LanguageModel, ids: np.ndarray[tuple[int], np.dtype[np.int64]], progress: Progress = silent
) -> list[float]:
    """log p(x_t | x_<t) for t = 1 … T−1. A recurrent model reads on and on. A Transformer reads windows of `context` tokens
    that overlap by half, so that each token beyond the first window has at least half a context before it."""
    device = next(network.parameters()).device
    token_T = torch.from_numpy(ids).to(device)
    result: list[float] = []
    state = network.start(1)
    at = 0  # the next token to read
    while at < len(token_T) - 1:
        if network.context is None:
            begin, end = at, min(at + _PIECE, len(token_T) - 1)
        else:
            begin = max(0, at - network.context // 2)
            end = min(begin + network.context, len(token_T) - 1)
            state = network.start(1)
        logits_1TV, state = network.step(token_T[begin:end].unsqueeze(0), state)
        log_p_TV = torch.log_softmax(logits_1TV[0, at - begin :].double(), -1)
        result += log_p_TV.gather(1, token_T[at + 1 : end + 1].unsqueeze(1)).squeeze(1).tolist()
        at = end
        progress("scoring", at, len(token_T) - 1)
    return result
