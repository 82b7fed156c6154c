"""The loss at each position, against a loop over windows in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import CONFIGS, random_model

from firth.errors import DataError
from firth.evaluation.perplexity import loss_by_position

VOCAB = 13
FLOAT32 = 2e-6  # share; the softmax is in float32
ENDLESS = [name for name in CONFIGS if name.startswith("transformer") and "learned" not in name]


def by_hand(name: str, ids: np.ndarray, context: int) -> np.ndarray:
    model, rows = random_model(name, VOCAB), []
    for start in range(0, (len(ids) - 1) // context * context, context):
        token_1T = torch.from_numpy(ids[start : start + context + 1].astype(np.int64))[None]
        with torch.inference_mode():
            log_p_TV = torch.log_softmax(model(token_1T[:, :-1])[0][0].double(), -1)
        rows.append(-log_p_TV.gather(1, token_1T[0, 1:, None])[:, 0].numpy())
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("context", [5, 12, 40])
@pytest.mark.parametrize("name", ENDLESS)
def test_it_is_the_mean_over_windows_also_beyond_the_models_context(name: str, context: int) -> None:
    ids = np.random.default_rng(0).integers(VOCAB, size=127).astype(np.uint16)
    losses = loss_by_position(random_model(name, VOCAB), ids, batch=2, context=context)
    assert losses.shape == (context,)
    assert losses == pytest.approx(by_hand(name, ids, context), rel=FLOAT32)


def test_a_text_shorter_than_a_window_is_refused() -> None:
    ids = np.zeros(12, np.uint16)
    with pytest.raises(DataError, match="the text has 12 tokens, but a window of 12 needs 13"):
        loss_by_position(random_model("transformer, rotary", VOCAB), ids, batch=1, context=12)
