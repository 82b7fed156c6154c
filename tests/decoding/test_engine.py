"""The engine's answers equal those of a model that generates each text alone."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from engine_jobs import CONTEXT, VOCAB, Heard, alone, alone_numbered, asked, by_turns, job, prompts, running
from shares import half, third
from small_models import CONFIGS, random_model

from firth.decoding.engine.engine import Engine, Job
from firth.inspection.predictions import read_log_probabilities
from firth.models import LanguageModel

ANY = ["lstm", "gated linear", "transformer, shaw, window"]
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.0},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.5, "top_p": 0.8},
    {"temperature": 1.2, "min_p": 0.2},
    {"temperature": 1.0, "top_k": 5, "top_p": 0.7, "min_p": 0.1, "repetition_penalty": 1.4},
    {"temperature": 0.0, "repetition_penalty": 1.3},
]


def answers(engine: Engine, jobs: list[Job], seed: int) -> list[list[int]]:
    """The answers to jobs that arrive at random times, beside others that leave early."""
    draw = random.Random(seed)
    heard: list[Heard] = []
    left = list(jobs)
    while left or not all(one.over() for one in heard):
        if left and draw.random() < 0.3:
            heard.append(asked(engine, left.pop(0)))
        if draw.random() < 0.1 and engine.facts()["waiting"] < 5:
            other = engine.submit(job(prompts(1, 9, draw.randrange(10**6))[0], 40), Heard())
            if draw.random() < 0.5:
                engine.turn()
            other.cancel()
        engine.turn()
    return [one.ids() for one in heard]


@pytest.mark.parametrize("name", third(CONFIGS))
def test_each_greedy_answer_is_that_of_a_text_alone(name: str) -> None:
    model, draw = random_model(name, VOCAB), random.Random(1)
    jobs = [job(prompt, draw.randint(1, 20)) for prompt in prompts(6, 16)]
    assert answers(Engine(model, slots=3, chunk=6), jobs, 0) == [alone(model, one) for one in jobs]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("transformer, learned", marks=pytest.mark.long),
        pytest.param("transformer, rotary", marks=pytest.mark.long),
        "transformer, shaw, window",
    ],
)
def test_looking_ahead_changes_no_answer(name: str) -> None:
    """The next step is asked for before the tokens are read, as on a GPU: past the end of texts and of the context, with tokens
    that end texts."""
    model, draw = random_model(name, VOCAB), random.Random(1)
    asked_for = [*prompts(12, 16), *prompts(12, 16)]  # every prompt twice: the second time, some of it is still known
    jobs = [job(prompt, draw.randint(1, 20), seed=1, **draw.choice(SETTINGS)) for prompt in asked_for]
    expected = [alone_numbered(model, one) for one in jobs]
    hits = 0
    for slots in (3, 5, 8, 12):  # with few rows they change places all the time, with many a text is still known
        engine = Engine(model, slots=slots, chunk=16)
        engine._looks_ahead = True
        assert answers(engine, jobs, slots) == expected
        hits += int(engine.facts()["prefix_hits"])
    assert hits > 0


def test_looking_ahead_steps_are_asked_for_early() -> None:
    engine = Engine(random_model("transformer, rotary", VOCAB), slots=2)
    engine._looks_ahead = True
    heard = asked(engine, job([1, 2], 8))
    engine.turn()
    assert (len(heard.events), engine.facts()["steps"]) == (1, 1)  # of the prompt; the first step is under way
    engine.turn()
    assert (len(heard.events), engine.facts()["steps"]) == (2, 2)


def test_a_row_whose_step_is_under_way_moves_with_it() -> None:
    """A short text leaves the first row. To read two prompts together, the other takes its place while its step is computed."""
    model = random_model("transformer, rotary", VOCAB)
    for last in range(VOCAB):
        engine = Engine(model, slots=4, chunk=64)
        engine._looks_ahead = True
        long = job([2, 7, 1, 8, last], 7)
        short, heard = asked(engine, job([1], 2)), asked(engine, long)
        by_turns(engine, short)
        assert engine._launched is not None
        for prompt in ([3, 4, 5], [6, 4, 5]):
            asked(engine, job(prompt, 2))
        by_turns(engine, heard)
        assert heard.ids() == alone(model, long)


@pytest.mark.long
@pytest.mark.parametrize("looks_ahead", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONFIGS)
def test_each_answer_is_that_of_a_text_alone_whatever_else_happens(name: str, seed: int, looks_ahead: bool) -> None:
    model, draw = random_model(name, VOCAB), random.Random(seed)
    settings = [draw.choice(SETTINGS) for _ in range(40)]
    jobs = [
        job(prompt, draw.randint(1, 40), seed=seed, **one) for prompt, one in zip(prompts(40, 30, seed), settings, strict=True)
    ]
    engine = Engine(model, slots=draw.randint(1, 9), chunk=draw.randint(1, 20))
    engine._looks_ahead = looks_ahead and engine._memory.pads
    assert answers(engine, jobs, seed) == [alone_numbered(model, one) for one in jobs]


@pytest.mark.parametrize("name", ANY)
def test_a_sampled_answer_does_not_depend_on_the_others(name: str) -> None:
    model = random_model(name, VOCAB)
    jobs = [job(prompt, 9, seed=3, number=n % 2, **SETTINGS[n % len(SETTINGS)]) for n, prompt in enumerate(prompts(7, 9))]
    assert answers(Engine(model, slots=4, chunk=4), jobs, 1) == [alone_numbered(model, one) for one in jobs]


def test_a_number_gives_a_text_of_its_own() -> None:
    model = random_model("gru", VOCAB)
    texts = answers(Engine(model), [job([1, 2], 20, temperature=1.0, number=number) for number in (0, 1)], 0)
    assert texts[0] != texts[1]


def test_the_thread_answers() -> None:
    model = random_model("transformer, rotary", VOCAB)
    jobs = [job(prompt, 20) for prompt in prompts(8, 16)]
    with running(model) as engine:
        heard = [asked(engine, one) for one in jobs]
        assert [one.ids() for one in heard] == [alone(model, one) for one in jobs]
        assert {one.finished().reason for one in heard} == {"length"}


@pytest.mark.parametrize("name", ["lstm", "transformer, learned"])
def test_one_of_the_ends_ends_a_text_and_is_not_delivered(name: str) -> None:
    model = random_model(name, VOCAB)
    text = alone(model, job([1, 2, 3], 30))
    end = text[7]
    engine = Engine(model)
    heard = [asked(engine, job([1, 2, 3], 30, ends=ends)) for ends in ((), (end, VOCAB - 1))]
    by_turns(engine, *heard)
    assert [one.finished().reason for one in heard] == ["length", "stop"]
    assert heard[0].ids() == text
    assert heard[1].ids() == text[: next(n for n, id in enumerate(text) if id in (end, VOCAB - 1))]


def naive_log_p(model: LanguageModel, held: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([held]))[0][0, -1].double(), -1)


@pytest.mark.parametrize("settings", SETTINGS[4:], ids=str)
@pytest.mark.parametrize("name", ["gru", "transformer, t5, additive"])
def test_log_probabilities_are_the_model_s_own(name: str, settings: dict[str, Any]) -> None:
    model = random_model(name, VOCAB)
    engine, prompt = Engine(model, slots=2), [4, 5]
    heard = [asked(engine, job(prompt, 8, top=top, **settings)) for top in (3, 0, 30)]
    by_turns(engine, *heard)
    assert heard[0].ids() == heard[1].ids() == heard[2].ids()
    assert [len(event.top) for one in heard for event in one.written()] == [3] * 8 + [0] * 8 + [VOCAB] * 8
    held = list(prompt)
    for event, other in zip(heard[0].written(), heard[1].written(), strict=True):
        log_p_V = naive_log_p(model, held)
        best = log_p_V.topk(3)
        assert event.log_probability == pytest.approx(float(log_p_V[event.id]), abs=1e-9)
        assert other.log_probability == pytest.approx(event.log_probability, abs=1e-12)
        assert [id for id, _ in event.top] == best.indices.tolist()
        assert [value for _, value in event.top] == pytest.approx(best.values.tolist(), abs=1e-9)
        held.append(event.id)


@pytest.mark.parametrize("length", [1, CONTEXT, CONTEXT + 1, 30])
@pytest.mark.parametrize("name", half(["mingru", *ANY]))
def test_a_scored_prompt_has_the_log_probabilities_of_score(name: str, length: int) -> None:
    model = random_model(name, VOCAB)
    prompt = np.random.default_rng(length).integers(VOCAB, size=length)
    engine = Engine(model, slots=2, chunk=5)
    jobs = [job(prompt.tolist(), 3, score_prompt=True, top=2, continues=continues) for continues in (True, False)]
    heard = [asked(engine, one) for one in (*jobs, jobs[0])]
    by_turns(engine, *heard)
    for one in heard:
        scored = one.written()[:length]
        assert [event.id for event in scored] == prompt.tolist()
        assert scored[0].log_probability is None
        log_probabilities = [event.log_probability for event in scored[1:]]
        assert log_probabilities == pytest.approx(read_log_probabilities(model, prompt) if length > 1 else [], abs=1e-9)
        assert all(event.top[0][1] >= (event.log_probability or -math.inf) for event in scored[1:])
    assert [one.ids()[length:] for one in heard] == [alone(model, jobs[0]), [], alone(model, jobs[0])]


@pytest.mark.parametrize("at_once", [1, 7])
def test_scores_do_not_depend_on_how_many_are_computed_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.decoding.engine.stream._SCORED_AT_ONCE", at_once)
    test_a_scored_prompt_has_the_log_probabilities_of_score("lstm", 30)
