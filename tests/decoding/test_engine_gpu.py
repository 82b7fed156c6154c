"""On a GPU the engine's steps are recorded in its own memory, and the answers are those of the CPU."""

from __future__ import annotations

import random

import pytest
import torch
from engine_jobs import VOCAB, alone, alone_numbered, asked, by_turns, job, prompts
from small_models import CONFIGS, random_model

from firth.decoding.engine.engine import Engine
from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_answers_are_those_of_the_cpu(name: str, temperature: float) -> None:
    model, draw = random_model(name, VOCAB), random.Random(1)
    jobs = [job(prompt, draw.randint(1, 40), temperature=temperature, seed=2, top_k=6) for prompt in prompts(30, 16)]
    expected = [alone_numbered(model, one) for one in jobs]
    engine = Engine(model.cuda(), slots=4, chunk=8)
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == expected
    assert engine._memory.recorded.graphs


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_short_prompts_are_read_by_recorded_steps(position: str) -> None:
    config = TransformerConfig(kind="transformer", width=32, depth=2, heads=4, context=128, position=position)
    model = language_model(config, VOCAB).double().eval()
    initialise(model, torch.Generator().manual_seed(0))
    jobs = [job(prompt, 30) for prompt in prompts(40, 90)]
    expected = [alone(model, one) for one in jobs]
    engine = Engine(model.cuda(), slots=6)
    engine._memory.warm_up()
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == expected


def test_memory_does_not_grow() -> None:
    """A few buffers are made when a length first occurs; a leak would add something in every round."""
    engine = Engine(random_model("transformer, rotary", VOCAB).cuda(), slots=4, chunk=8)

    def work(seed: int) -> int:
        by_turns(engine, *(asked(engine, job(prompt, 20)) for prompt in prompts(30, 16, seed)))
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    before = [work(seed) for seed in range(6)][-1]
    assert all(work(seed) <= before for seed in range(6))
