"""Sharing of the engine's time and memory: turns, prefixes, cancellation, failures, full queues, shutting down."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine_jobs import CONTEXT, SECONDS, VOCAB, Heard, alone, alone_numbered, asked, by_turns, job, prompts, running
from shares import third
from small_models import CONFIGS, random_model
from torch import Tensor, nn

from firth.decoding.engine.engine import Engine, EngineClosed, Event, QueueFull
from firth.errors import ConfigError
from firth.layers.state import can_be_cut
from firth.models import LanguageModel

BROKEN = 7  # a token that makes everything after it nan


def tokens_read(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens of each call that reads more than one token or a prompt of one text."""
    read: list[int] = []
    hidden: Callable[..., Any] = model.hidden

    def counting(token_BT: Tensor, state: Any = None, **rest: Any) -> Any:
        read.append(token_BT.numel())
        return hidden(token_BT, state, **rest)

    monkeypatch.setattr(model, "hidden", counting)
    return read


def broken_model(name: str) -> LanguageModel:
    """Its output layer is not the embedding, which would make every logit nan."""
    model: Any = random_model(name, VOCAB)
    weight_Vd, bias_V = (None if part is None else nn.Parameter(part.detach().clone()) for part in model.output_layer())
    model.output = nn.Linear(1, 1, bias=False)
    model.output.weight, model.output.bias = weight_Vd, bias_V
    with torch.no_grad():
        model.embedding.weight[BROKEN] = torch.nan
    return model  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["lstm", "transformer, rotary"])
def test_a_turn_reads_at_most_a_chunk_of_prompts_and_lets_every_text_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, VOCAB)
    engine = Engine(model, slots=4, chunk=3)
    writer = asked(engine, job([1], 40))
    engine.turn()
    long = [asked(engine, job([2, *range(9)], 2)) for _ in range(2)]
    read = tokens_read(model, monkeypatch)
    before = len(writer.events)
    for _ in range(3):
        read.clear()
        engine.turn()
        assert sum(read) <= 3 + 1  # and one token of the text that writes
    assert len(writer.events) == before + 3
    assert not any(one.events for one in long)


@pytest.mark.parametrize("name", third(CONFIGS, 2))
def test_prompts_of_similar_length_are_read_in_one_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, VOCAB)
    jobs = [job([n, *range(n + 3, n + 3 + length)], 5) for n, length in enumerate((6, 4, 6, 5, 6, 2))]
    expected = [alone(model, one) for one in jobs]
    engine = Engine(model, slots=6, chunk=64)
    heard = [asked(engine, one) for one in jobs]
    read = tokens_read(model, monkeypatch)
    engine.turn()
    pads = can_be_cut(engine._memory.slots.state)  # padding would stay in a sum over the past
    assert read[:4] == ([5 * 7, 3, 6] if pads else [3 * 7, 5, 6, 3])[:4]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == expected
    assert engine.facts()["prompt_tokens"] == sum(len(one.prompt) for one in jobs)


def test_the_same_prompt_is_read_once() -> None:
    model = random_model("transformer, rotary", VOCAB)
    engine = Engine(model, slots=4)
    jobs = [job([1, 2, 3, 4, 5], 6, temperature=1.0, number=number) for number in range(4)]
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == [alone_numbered(model, one) for one in jobs]
    assert engine.facts()["prompt_tokens"] == 5 + 3  # each of the others reads the last token, for its logits


def test_rests_of_prompts_are_read_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rests follow a known prefix, at different positions of their texts."""
    model = random_model("transformer, rotary", VOCAB)
    begin = [1, 2, 3, 4, 5, 6]
    jobs = [job([*begin[:length], 9 + n, 8], 5) for n, length in enumerate((6, 4, 5, 6))]
    expected = [alone(model, one) for one in jobs]
    engine = Engine(model, slots=6)
    by_turns(engine, asked(engine, job(begin, 2)))
    read = tokens_read(model, monkeypatch)
    heard = [asked(engine, one) for one in jobs]
    engine.turn()
    assert read == [4 * 2, 4]  # then the first step
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == expected


def test_prompts_take_turns() -> None:
    """A short prompt does not wait until a long one is read."""
    engine = Engine(random_model("gru", VOCAB), slots=2, chunk=2)
    long, short = asked(engine, job([1] * 30, 1)), asked(engine, job([2, 3], 1))
    by_turns(engine, short)
    assert not long.events


def test_first_come_first_served() -> None:
    model, order = random_model("gru", VOCAB), []
    engine = Engine(model, slots=2, chunk=4)
    for n in range(9):
        engine.submit(job([n], 5), lambda events, n=n: order.append(n))  # type: ignore[misc]
    while engine.facts()["waiting"]:
        engine.turn()
    first = list(dict.fromkeys(order))
    assert first == sorted(first)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_prompt_starts_from_what_another_text_left(name: str) -> None:
    model = random_model(name, VOCAB)
    engine, first = Engine(model, slots=2), job([1, 2, 3], 4)
    text = alone(model, first)
    following = job([1, 2, 3, *text, 9], 4)
    for one in (first, following):
        heard = asked(engine, one)
        by_turns(engine, heard)
        assert heard.ids() == alone(model, one)
    facts = engine.facts()
    assert (facts["prefix_hits"], facts["prefix_tokens"]) == (1, 3 + 4 - 1)  # the last token was written and never read
    assert facts["prompt_tokens"] == 3 + 2


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.startswith("transformer")])
def test_a_transformer_takes_the_common_part_of_a_prompt(name: str) -> None:
    model = random_model(name, VOCAB)
    engine = Engine(model, slots=2)
    jobs = [job([1, 2, 3, 4, end], 5) for end in (5, 6, 5)]
    for one in jobs:
        heard = asked(engine, one)
        by_turns(engine, heard)
        assert heard.ids() == alone(model, one)
    assert engine.facts()["prefix_tokens"] == 4 + 4


@pytest.mark.parametrize("name", ["lstm", "linear", "based"])
def test_a_memory_that_cannot_be_cut_is_only_used_whole(name: str) -> None:
    model = random_model(name, VOCAB)
    engine = Engine(model, slots=2)
    for end in (5, 6):
        heard = asked(engine, job([1, 2, 3, 4, end], 5))
        by_turns(engine, heard)
        assert heard.ids() == alone(model, job([1, 2, 3, 4, end], 5))
    assert engine.facts()["prefix_hits"] == 0


def test_a_text_that_writes_lends_its_prompt() -> None:
    model = random_model("transformer, rotary", VOCAB)
    engine = Engine(model, slots=3)
    first = asked(engine, job([1, 2, 3, 4], 9))
    engine.turn()
    second = asked(engine, job([1, 2, 3, 4], 9))
    by_turns(engine, first, second)
    assert first.ids() == second.ids() == alone(model, job([1, 2, 3, 4], 9))
    assert engine.facts()["prefix_tokens"] == 3


@pytest.mark.parametrize("when", ["waiting", "reading", "writing"])
@pytest.mark.parametrize("name", ["lstm", "transformer, rotary"])
def test_a_cancelled_job_leaves_at_the_next_turn(name: str, when: str) -> None:
    model = random_model(name, VOCAB)
    engine = Engine(model, slots=1 if when == "waiting" else 2, chunk=3)
    other, heard = asked(engine, job([4, 5], 20)), Heard()
    engine.turn()
    ticket = engine.submit(job([1] * (9 if when == "reading" else 2), 1000), heard)
    engine.turn()
    ticket.cancel()
    engine.turn()
    assert heard.finished().reason == "cancelled"
    assert bool(heard.ids()) == (when == "writing")
    by_turns(engine, other)
    assert other.ids() == alone(model, job([4, 5], 20))
    assert engine.facts()["running"] == 0


def test_memory_does_not_grow() -> None:
    """The rows stay where they are, and nothing but them and the model remembers anything."""
    model = random_model("transformer, rotary", VOCAB)
    engine = Engine(model, slots=3, chunk=8)
    addresses = [tensor.data_ptr() for tensor in engine._memory.slots.state.tensors()]

    def work(seed: int) -> int:
        heard = [asked(engine, job(prompt, 14, seed=seed)) for prompt in prompts(4, 16, seed)]
        by_turns(engine, *heard)
        gc.collect()
        storages = [thing.untyped_storage() for thing in gc.get_objects() if type(thing) is Tensor]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    work(0)
    before = work(1)
    assert work(2) <= before + 1000  # the settings of the rows of the last step
    assert [tensor.data_ptr() for tensor in engine._memory.slots.state.tensors()] == addresses
    assert engine.facts()["running"] == 0


def test_a_job_out_of_time_ends() -> None:
    engine = Engine(random_model("gru", VOCAB), slots=1)
    heard = [asked(engine, job([1], 5, seconds=0.0)), asked(engine, job([1], 5, seconds=1000.0))]
    by_turns(engine, *heard)
    assert [one.finished().reason for one in heard] == ["timeout", "length"]


@pytest.mark.parametrize("name", third(CONFIGS, 1))
def test_a_failing_text_fails_alone(name: str) -> None:
    """Those beside it and those that get its memory later do not notice."""
    model = broken_model(name)
    engine = Engine(model, slots=2, chunk=4)
    jobs = [job(prompt, 8, ends=(BROKEN,)) for prompt in ([1, 2], [3, BROKEN, 4, 5, 6, 7], [1, 2], [3], [4, 5])]
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert heard[1].finished().reason == "failed"
    assert "not finite" in str(heard[1].finished().error)
    for n in (0, 2, 3, 4):
        text = alone(model, jobs[n])
        assert heard[n].ids() == (text[: text.index(BROKEN)] if BROKEN in text else text)


def test_a_failing_step_fails_those_in_work_and_the_engine_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = random_model("gru", VOCAB)
    engine = Engine(model, slots=2, chunk=1)
    lost = [asked(engine, job([1], 30)), asked(engine, job([1] * 9, 30))]
    waiting = asked(engine, job([2, 3], 8))
    for _ in range(3):
        engine.turn()
    with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
        patch.setattr(engine._memory, "step", raising)
        engine.turn()
    assert [one.finished().reason for one in lost] == ["failed", "failed"]
    assert "out of memory" in str(lost[0].finished().error)
    by_turns(engine, waiting)
    assert waiting.ids() == alone(model, job([2, 3], 8))


def raising(*_: Any, **__: Any) -> Any:
    raise RuntimeError("out of memory")


def test_a_failing_prompt_fails_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    model = random_model("gru", VOCAB)
    engine = Engine(model, slots=2, chunk=4)
    first = asked(engine, job([1], 8))
    engine.turn()
    second = asked(engine, job([2], 8))
    with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
        patch.setattr("firth.decoding.engine.stream.Stream.read_piece", raising)
        engine.turn()
    assert second.finished().reason == "failed"
    by_turns(engine, first)
    assert first.ids() == alone(model, job([1], 8))


def test_events_that_nobody_takes_end_the_job(caplog: pytest.LogCaptureFixture) -> None:
    model = random_model("gru", VOCAB)
    engine = Engine(model, slots=2)
    with caplog.at_level(logging.CRITICAL):
        engine.submit(job([1], 10**6), raising)
        other = asked(engine, job([1], 8))
        by_turns(engine, other)
    assert other.ids() == alone(model, job([1], 8))
    assert engine.facts()["cancelled"] == 1
    assert engine.facts()["running"] == 0


def test_a_full_queue_refuses() -> None:
    engine = Engine(random_model("gru", VOCAB), slots=1, queue=2)
    heard = [asked(engine, job([1], 3)) for _ in range(2)]
    with pytest.raises(QueueFull, match="2 requests are waiting"):
        asked(engine, job([1], 3))
    by_turns(engine, *heard)
    by_turns(engine, asked(engine, job([1], 3)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (job([], 3), "prompt is empty"),
        (job([VOCAB], 3), f"0 to {VOCAB - 1}"),
        (job([-1], 3), f"0 to {VOCAB - 1}"),
        (job([1], 3, beam=2), "beam is 2"),
        (job([1] * 6, 4), "a text may have 8"),
        (job([1] * 9, 1), "a text may have 8"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Engine(random_model("transformer, rotary", VOCAB), capacity=8).submit(given, Heard())


@pytest.mark.parametrize("name", ["lstm", "transformer, rotary"])
def test_what_fits_into_the_capacity_is_answered(name: str) -> None:
    model = random_model(name, VOCAB)
    engine = Engine(model, slots=2, capacity=8)
    jobs = [job([1] * 5, 4), job([2] * 8, 1)]
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == [alone(model, one) for one in jobs]


@pytest.mark.parametrize("setting", ["slots", "capacity", "chunk", "queue"])
def test_sizes_are_positive(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is 0"):
        Engine(random_model("gru", VOCAB), **{setting: 0})


def test_closing_finishes_what_was_accepted() -> None:
    model = random_model("gru", VOCAB)
    with running(model, slots=2) as engine:
        heard = [asked(engine, job([n], 30)) for n in range(5)]
        engine.close(drain=True)
        assert [one.ids() for one in heard] == [alone(model, job([n], 30)) for n in range(5)]
        with pytest.raises(EngineClosed):
            asked(engine, job([1], 1))


@pytest.mark.parametrize("how", [{"drain": False}, {"drain": True, "seconds": 0.01}])
def test_closing_can_cancel(how: dict[str, Any]) -> None:
    with running(random_model("gru", VOCAB), slots=2) as engine:
        heard = [asked(engine, job([n], 10**6)) for n in range(5)]
        heard[0].begun()
        engine.close(**how)
        assert {one.finished().reason for one in heard} == {"cancelled"}
        assert engine.facts()["running"] == engine.facts()["waiting"] == 0


def test_a_thread_that_waits_is_woken_and_can_be_cancelled_from_its_own_deliveries() -> None:
    with running(random_model("gru", VOCAB)) as engine:
        for _ in range(3):
            heard, box = Heard(), []  # type: ignore[var-annotated]
            submitted = threading.Event()

            def deliver(events: list[Event], heard: Heard = heard, box: list[Any] = box, there: Any = submitted) -> None:
                assert there.wait(SECONDS)
                heard(events)
                box[0].cancel()

            box.append(engine.submit(job([1], 10**6), deliver))
            submitted.set()
            assert heard.finished().reason == "cancelled"


def test_the_facts_add_up() -> None:
    model = random_model("transformer, rotary", VOCAB)
    engine = Engine(model, slots=2)
    heard = [asked(engine, job([n, n + 1], 2 * CONTEXT)) for n in range(5)]
    by_turns(engine, *heard)
    facts = engine.facts()
    assert facts["tokens_generated"] == 5 * 2 * CONTEXT
    assert facts["length"] == facts["jobs"] == 5
    assert (facts["slots"], facts["capacity"]) == (2, CONTEXT)
    assert facts["slides"] == 5 * 2
