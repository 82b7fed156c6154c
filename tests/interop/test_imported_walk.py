"""A public model in the walk: its numbers are those of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from foreign_folders import PROMPT, gpt2, saved

from firth.api import load


@pytest.mark.long
def test_a_walk_through_gpt2_ends_in_the_logits_of_transformers(tmp_path: Path) -> None:
    foreign = gpt2()
    run = load(saved(tmp_path / "gpt2", foreign))
    ours = run.walk(PROMPT)
    with torch.no_grad():
        truth = foreign(torch.from_numpy(run.prefixed_ids(PROMPT))[None], output_hidden_states=True)
    torch.testing.assert_close(
        ours.logits_TV[:, : run.tokenizer.vocab], truth.logits[0][:, : run.tokenizer.vocab], rtol=0, atol=1e-4
    )
    blocks = [one for one in ours.stages if one.kind == "block"]
    for stage, x_1Td in zip([ours.stages[0], *blocks[:-1]], truth.hidden_states, strict=False):
        torch.testing.assert_close(stage.out_Td, x_1Td[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(stage.matrices(0)[-1].value, x_1Td[0], rtol=0, atol=1e-4)
