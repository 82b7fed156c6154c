"""Generation with a state equals a loop that reads everything again at every step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from searches import beam
from shares import half, third
from small_models import CONFIGS, lengths_read, random_model
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import EndlessText, generate
from firth.models import LanguageModel

VOCAB, CONTEXT, B = 23, 12, 3
TRANSFORMERS = [name for name in CONFIGS if name.startswith("transformer")]


def prompt(length: int, batch: int = B) -> Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(2))


def generated(model: LanguageModel, prompt_BT: Tensor, tokens: int, **options: Any) -> Tensor:
    config = DecodingConfig(tokens=tokens, **({"temperature": 0.0} | options))
    return torch.stack(list(generate(model, prompt_BT, config)), dim=1)


def naive(model: LanguageModel, prompt_BT: Tensor, tokens: int) -> Tensor:
    """Greedy, no state: each step reads all that is held. A full context is cut to its later half (the rule of generate)."""
    held_BT, written = prompt_BT if model.context is None else prompt_BT[:, -model.context :], []
    for _ in range(tokens):
        with torch.inference_mode():
            token_B = model(held_BT)[0][:, -1].argmax(-1)
        written.append(token_B)
        held_BT = torch.cat((held_BT, token_B.unsqueeze(1)), 1)
        if model.context is not None and held_BT.shape[1] > model.context:
            held_BT = held_BT[:, -(model.context // 2) :]
    return torch.stack(written, dim=1)


@pytest.mark.parametrize("length", [1, 5], ids=["prompt of one", "prompt of five"])
@pytest.mark.parametrize("name", half(CONFIGS, 1))
def test_cached_equals_uncached(name: str, length: int) -> None:
    model = random_model(name, VOCAB)
    assert torch.equal(generated(model, prompt(length), 7), naive(model, prompt(length), 7))


@pytest.mark.parametrize("name", third(CONFIGS))
def test_generation_goes_on_past_the_context(name: str) -> None:
    model = random_model(name, VOCAB)
    assert torch.equal(generated(model, prompt(4), 3 * CONTEXT), naive(model, prompt(4), 3 * CONTEXT))


@pytest.mark.parametrize("length", [CONTEXT - 1, CONTEXT, CONTEXT + 1, 3 * CONTEXT])
@pytest.mark.parametrize("name", half(["lstm", *TRANSFORMERS]))
def test_a_prompt_as_long_as_the_context_and_longer_is_read(name: str, length: int) -> None:
    model = random_model(name, VOCAB)
    assert torch.equal(generated(model, prompt(length), 9), naive(model, prompt(length), 9))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_of_a_long_prompt_the_last_context_counts(name: str) -> None:
    model = random_model(name, VOCAB)
    assert torch.equal(generated(model, prompt(40), 5), generated(model, prompt(40)[:, -CONTEXT:], 5))


def test_a_recurrent_model_remembers_the_whole_prompt() -> None:
    model = random_model("rnn", VOCAB)
    seen = torch.cat([generated(model, prompt(40, batch=8)[:, cut:], 3) for cut in (0, 37)])
    assert not torch.equal(*seen.chunk(2))


@pytest.mark.parametrize("name", third(CONFIGS, 1))
def test_a_row_does_not_depend_on_the_others(name: str) -> None:
    model = random_model(name, VOCAB)
    together = generated(model, prompt(5), 20)
    alone = torch.cat([generated(model, prompt(5)[row : row + 1], 20) for row in range(B)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", CONFIGS)
def test_each_token_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, VOCAB)
    read = lengths_read(model, monkeypatch)
    generated(model, prompt(5), 7)
    assert read == [5, 1, 1, 1, 1, 1, 1]  # the prompt in one call; the last token is not read at all


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_long_generation_costs_at_most_two_readings_per_token(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, VOCAB)
    read = lengths_read(model, monkeypatch)
    generated(model, prompt(5), 100)
    assert sum(read) <= 2 * (5 + 100)
    assert max(read) <= CONTEXT


def test_a_recurrent_model_reads_each_token_once_however_long_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model("gru", VOCAB)
    read = lengths_read(model, monkeypatch)
    generated(model, prompt(5), 100)
    assert sum(read) == 5 + 99


@pytest.mark.parametrize("name", ["lstm", "transformer, rotary"])
def test_the_seed_decides_the_text(name: str) -> None:
    model = random_model(name, VOCAB)
    first, again, other = (generated(model, prompt(3), 20, temperature=1.0, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_tokens_come_one_at_a_time() -> None:
    """The second is not worked out before it is asked for, so a caller can stream and stop."""
    model = random_model("rnn", VOCAB)
    with pytest.MonkeyPatch.context() as patch:
        read = lengths_read(model, patch)
        tokens = generate(model, prompt(4), DecodingConfig(tokens=50))
        assert next(tokens).shape == (B,)
        assert read == [4]


@pytest.mark.parametrize("name", third(["lstm", *TRANSFORMERS], 1))
def test_a_repetition_penalty_counts_the_prompt_and_what_was_generated(name: str) -> None:
    """Also what is no longer held in a bounded context."""
    model, theta, steps = random_model(name, VOCAB), 1.3, 2 * CONTEXT
    token_BT = generated(model, prompt(4), steps, repetition_penalty=theta)
    for row, start in enumerate(prompt(4).tolist()):
        text, held = list(start), list(start)
        for _ in range(steps):
            with torch.no_grad():
                x_V = model(torch.tensor([held]))[0][0, -1]
            for token in set(text):
                x_V[token] = x_V[token] * theta if x_V[token] < 0 else x_V[token] / theta
            text, held = [*text, int(x_V.argmax())], [*held, int(x_V.argmax())]
            if model.context is not None and len(held) > model.context:
                held = held[-(model.context // 2) :]
        assert token_BT[row].tolist() == text[len(start) :]


@pytest.mark.parametrize("name", third(["gru", *TRANSFORMERS]))
def test_a_beam_past_the_context_is_a_beam_that_reads_everything_again(name: str) -> None:
    """Each hypothesis against its own text, read without a state and cut to its later half when the context is full."""
    model, steps = random_model(name, VOCAB), CONTEXT + 9
    endless = EndlessText(model)
    beams = beam(endless, endless.start(2), prompt(5, 2), size=3, limits=[steps] * 2, end=VOCAB, limit_ends=True)
    for start, texts in zip(prompt(5, 2).tolist(), beams, strict=True):
        for hypothesis in texts:
            held, total = list(start), 0.0
            for token in hypothesis.tokens:
                with torch.inference_mode():
                    total += float(model(torch.tensor([held]))[0][0, -1].double().log_softmax(0)[token])
                held.append(token)
                if model.context is not None and len(held) > model.context:
                    held = held[-(model.context // 2) :]
            assert hypothesis.log_probability == pytest.approx(total, abs=steps * 10 * 2**-23)
