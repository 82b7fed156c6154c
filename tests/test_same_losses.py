"""A change that only moves code leaves the first losses of every shipped recipe as they were, to the bit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from recorded_losses import first_losses

RECORD = os.environ.get("FIRTH_LOSSES")
KNOWN: dict[str, list[float]] = json.loads(Path(RECORD).read_text(encoding="utf-8")) if RECORD else {"": []}


@pytest.mark.long
@pytest.mark.parametrize("name", KNOWN)
def test_the_first_losses_of_a_recipe_are_the_recorded_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not RECORD:
        pytest.skip("needs a record of earlier losses on this machine: tests/recorded_losses.py makes one, FIRTH_LOSSES names it")
    monkeypatch.chdir(Path(RECORD).with_suffix(""))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert first_losses(name) == KNOWN[name]
    torch.set_num_threads(threads)
