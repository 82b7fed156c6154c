"""Rows with settings of their own choose as the functions of sample.py and sequences.py choose for one setting."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from firth.decoding.row_choice import RowChoice
from firth.decoding.sample import DecodingConfig, penalise
from firth.decoding.sequences import sampling

VOCAB = 40


@dataclass
class Row:
    config: DecodingConfig
    generator: np.random.Generator
    seen_V: Tensor | None = None
    top: int = 0


@pytest.mark.parametrize("ties", [False, True], ids=["", "ties"])
def test_every_row_chooses_as_if_it_were_alone(ties: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    options = itertools.product((0.0, 0.6, 1.7), (0, 5, 100), (1.0, 0.5), (0.0, 0.3), (1.0, 1.5))
    configs = [
        DecodingConfig(temperature=t, top_k=k, top_p=p, min_p=m, repetition_penalty=r, seed=4) for t, k, p, m, r in options
    ]
    rows, chooses = [], []
    seen_nV = torch.rand((len(configs), VOCAB), generator=generator) < 0.3
    for number, config in enumerate(configs):
        seen_V = seen_nV[number] if config.repetition_penalty != 1 else None
        rows.append(Row(config, np.random.default_rng((4, number)), seen_V))
        chooses.append(sampling(config, [number]))
    choice = RowChoice(rows, torch.device("cpu"))
    for _ in range(4):
        logits_nV = torch.randn((len(rows), VOCAB), generator=generator) * 3
        logits_nV = logits_nV.round() if ties else logits_nV
        chosen = choice.choose(logits_nV)
        for row in range(len(rows)):
            seen_1N = seen_nV[row].nonzero().T
            x_1V = penalise(logits_nV[row : row + 1], seen_1N, rows[row].config.repetition_penalty)
            assert chosen.ids[row] == int(chooses[row](x_1V, [0]))
            log_p_V = torch.log_softmax(logits_nV[row], -1)
            assert chosen.log_probabilities[row] == pytest.approx(float(log_p_V[chosen.ids[row]]), abs=1e-5)
