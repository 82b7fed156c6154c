"""log p of each token of a text of any length. Letters: T time, V vocabulary."""

from __future__ import annotations

import numpy as np
import torch

from firth.inspection.predictions import of_text
from firth.models import LanguageModel
from firth.progress import Progress, silent


def read_log_probabilities(
    network: LanguageModel, ids: np.ndarray[tuple[int], np.dtype[np.int64]], progress: Progress = silent
) -> list[float]:
    """log p(x_t | x_<t) for t = 1 … T−1."""
    result: list[float] = []
    for log_p_TV in of_text(network, ids[:-1]):
        came_T = torch.from_numpy(ids[len(result) + 1 :][: len(log_p_TV)]).to(log_p_TV.device)
        result += log_p_TV.gather(1, came_T.unsqueeze(1)).squeeze(1).tolist()
        progress("scoring", len(result), len(ids) - 1)
    return result
