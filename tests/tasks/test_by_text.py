"""The losses of tokens that metrics text by text are sums of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import firth
from firth.evaluation.perplexity import nats_by_token
from firth.progress import silent
from firth.tasks.running_text import text_of


@pytest.mark.parametrize("streams", [1, 3])
def test_the_losses_of_tokens_are_in_the_order_of_the_text(char_run: Path, streams: int) -> None:
    run = firth.load(char_run)
    _, text = text_of(run, None, "valid", silent)
    nats = nats_by_token(run.network, text, batch=streams, context=5)
    ids = torch.from_numpy(np.asarray(text.ids, np.int64))
    length = (len(ids) - 1) // streams
    with torch.inference_mode():
        expected = []
        for first in [*range(0, streams * length, length), streams * length]:  # the rest is a stream of its own
            part = ids[first : first + length + 1] if first < streams * length else ids[first:]
            if len(part) > 1:
                logits, _ = run.network(part[None, :-1], None)
                expected.append(F.cross_entropy(logits[0], part[1:], reduction="none"))
    assert torch.from_numpy(nats) == pytest.approx(torch.cat(expected), abs=1e-5)
