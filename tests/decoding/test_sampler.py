"""Rows with settings of their own choose as if each were alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from shares import half

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import Chain, Sampler
from firth.decoding.sampling.draw import Draws
from firth.decoding.sampling.rows import TextSoFar

VOCAB = 40


@dataclass(eq=False)
class Row:
    text: TextSoFar
    draws: Draws
    drawn: int = 0
    top: int = 0


OTHERS = ({}, {"typical_p": 0.7, "xtc_probability": 0.5}, {"mirostat": 3.0}, {"dry_multiplier": 0.8, "dry_allowed_length": 1})


@pytest.mark.parametrize("ties", half([False, True]), ids=["", "ties"])
def test_every_row_chooses_as_if_it_were_alone(ties: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    options = itertools.product((0.0, 0.6, 1.7), (0, 5, 100), (1.0, 0.5), (0.0, 0.3), (1.0, 1.5), OTHERS)
    configs = [
        DecodingConfig(temperature=t, top_k=k, top_p=p, min_p=m, repetition_penalty=r, seed=4, **others)
        for t, k, p, m, r, others in options
    ]
    past = [torch.randint(VOCAB, (12,), generator=generator).tolist() for _ in configs]
    rows, alone = ([Row(TextSoFar(config, past[n]), Draws(4, n)) for n, config in enumerate(configs)] for _ in range(2))
    choice, device = Sampler(rows, torch.device("cpu")), torch.device("cpu")
    for step in range(4):
        logits_nV = torch.randn((len(rows), VOCAB), generator=generator) * 3
        logits_nV = logits_nV.round() if ties else logits_nV
        for row, id, log_p, share, _ in choice.choose(logits_nV).of(rows):
            n = rows.index(row)
            own, u_1 = Chain([alone[n].text], device), torch.from_numpy(np.random.default_rng((4, n)).random(step + 1)[step:])
            token_1, share_1 = own.choose(logits_nV[n : n + 1], u_1)
            assert (id, share) == (int(token_1), pytest.approx(1.0 if share_1 is None else float(share_1)))
            alone[n].text.add(int(token_1), 1.0 if share_1 is None else float(share_1))
            row.text.add(id, share)
            assert log_p == pytest.approx(float(torch.log_softmax(logits_nV[n], -1)[id]), abs=1e-5)
