"""Writing many texts at once, against a plain loop over one text at a time, which reads all of it anew for every token."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from searches import beam
from shares import half
from torch import Tensor
from translations import CONFIGS, random_translator

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import Chain
from firth.decoding.sampling.draw import random_numbers
from firth.decoding.sampling.rows import TextSoFar
from firth.decoding.search.beam import Hypothesis
from firth.decoding.search.sequences import decode
from firth.models import ConditionalDecoder

SOURCE_V, VOCAB, END = 11, 9, 0
LENGTHS = (6, 1, 4, 9, 2, 7, 3, 5)
LIMITS = [12, 12, 3, 12, 1, 12, 12, 7]
KINDS = tuple(CONFIGS)
ROUNDING = 12 * 10 * 2**-23  # float32 sums of up to 12 logarithms of up to about 10


def sources() -> tuple[Tensor, Tensor]:
    """Padded with a token that is no padding anywhere else, so that reading it would show."""
    generator = torch.Generator().manual_seed(1)
    source_BS = torch.randint(1, SOURCE_V, (len(LENGTHS), max(LENGTHS)), generator=generator)
    return source_BS, torch.tensor(LENGTHS)


GREEDY = DecodingConfig(temperature=0.0)


def written(
    model: ConditionalDecoder,
    config: DecodingConfig = GREEDY,
    rows: list[int] | None = None,
    limits: list[int] | None = None,
    numbers: list[int] | None = None,
) -> Any:
    source_BS, length_B = sources()
    chosen = torch.tensor(rows if rows is not None else list(range(len(LENGTHS))))
    length_B = length_B[chosen]
    state = model.start(model.encode(source_BS[chosen, : int(length_B.max())], length_B))
    prompt_B1 = torch.full((len(chosen), 1), END)
    limits = limits or [LIMITS[int(n)] for n in chosen]
    return decode(model, state, prompt_B1, config, numbers or chosen.tolist(), limits=limits, end=END)


def log_p(model: ConditionalDecoder, text: int, tokens: tuple[int, ...]) -> Tensor:
    """log p of every token that could come after each of `tokens`, and at first, read at once."""
    source_BS, length_B = sources()
    source_1S = source_BS[text : text + 1, : LENGTHS[text]]
    input_1T = torch.tensor([[END, *tokens]])
    with torch.inference_mode():
        return torch.log_softmax(model(source_1S, length_B[text : text + 1], input_1T)[0].double(), -1)


def plain_greedy(model: ConditionalDecoder, text: int, limit: int) -> Hypothesis:
    tokens: tuple[int, ...] = ()
    total = 0.0
    while len(tokens) < limit and END not in tokens:
        log_p_V = log_p(model, text, tokens)[-1]
        tokens, total = (*tokens, int(log_p_V.argmax())), total + float(log_p_V.max())
    return Hypothesis(tokens, total, total, finished=END in tokens)


@pytest.mark.parametrize("name", half(KINDS, 1))
def test_greedy_is_a_plain_loop_over_one_text_at_a_time(name: str) -> None:
    model = random_translator(name, SOURCE_V, VOCAB)
    hypotheses = written(model)
    truth = [plain_greedy(model, text, limit) for text, limit in enumerate(LIMITS)]
    assert [(h.tokens, h.finished) for h in hypotheses] == [(h.tokens, h.finished) for h in truth]
    assert [h.log_probability for h in hypotheses] == pytest.approx([h.log_probability for h in truth], abs=ROUNDING)
    assert [h.score for h in hypotheses] == [h.log_probability for h in hypotheses]


def test_some_of_these_end_by_themselves_and_some_at_their_limit() -> None:
    """Or the test above would not see one of the two."""
    hypotheses = [one for name in KINDS for one in written(random_translator(name, SOURCE_V, VOCAB))]
    assert {h.finished for h in hypotheses} == {True, False}
    assert len({len(h.tokens) for h in hypotheses if h.finished}) > 1


@pytest.mark.parametrize("name", KINDS)
def test_a_text_ends_with_its_first_end_or_has_as_many_tokens_as_its_limit(name: str) -> None:
    for hypothesis, limit in zip(written(random_translator(name, SOURCE_V, VOCAB)), LIMITS, strict=True):
        assert END not in hypothesis.tokens[:-1]
        assert hypothesis.finished == (hypothesis.tokens[-1] == END)
        assert hypothesis.finished or len(hypothesis.tokens) == limit


class Counting:
    """A model that always says one more than it was told, up to `END` after `last`; and counts the rows it is given."""

    def __init__(self, last: int) -> None:
        self.last, self.rows = last, 0

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.rows += len(token_BT)
        following_BT = torch.where(token_BT == self.last, END, token_BT + 1)
        return torch.nn.functional.one_hot(following_BT, self.last + 1).float(), state


class Nothing:
    def select(self, rows: Tensor) -> Nothing:
        return self


def test_texts_that_have_ended_are_given_up() -> None:
    """With limits 1 … 20 for ever-lasting texts, 210 tokens are needed, and 400 rows would be read if none were given up."""
    model, limits = Counting(30), list(range(1, 21))
    hypotheses = decode(model, Nothing(), torch.full((20, 1), END), GREEDY, range(20), limits=limits, end=-1)
    assert [h.tokens for h in hypotheses] == [tuple(range(1, limit + 1)) for limit in limits]
    assert 210 <= model.rows < 260


def test_without_texts_no_step_is_made() -> None:
    model = Counting(3)
    assert decode(model, Nothing(), torch.zeros(0, 1, dtype=torch.long), GREEDY, [], limits=[], end=END) == []
    assert model.rows == 0


@pytest.mark.parametrize("name", half(KINDS))
def test_a_repetition_penalty_counts_the_tokens_of_each_text_and_log_p_is_the_models(name: str) -> None:
    model, theta = random_translator(name, SOURCE_V, VOCAB), 1.5
    source_BS, length_B = sources()
    state = model.start(model.encode(source_BS, length_B))
    prompt_B1 = torch.full((len(LENGTHS), 1), END)
    config = DecodingConfig(temperature=0.0, repetition_penalty=theta)
    hypotheses = decode(model, state, prompt_B1, config, range(len(LENGTHS)), limits=LIMITS, end=END)
    for text, (hypothesis, limit) in enumerate(zip(hypotheses, LIMITS, strict=True)):
        tokens: tuple[int, ...] = ()
        while len(tokens) < limit and END not in tokens:
            with torch.no_grad():
                x_V = model(
                    source_BS[text : text + 1, : LENGTHS[text]], length_B[text : text + 1], torch.tensor([[END, *tokens]])
                )
            x_V = x_V[0, -1]
            for token in set(tokens):
                x_V[token] = x_V[token] * theta if x_V[token] < 0 else x_V[token] / theta
            tokens = (*tokens, int(x_V.argmax()))
        assert hypothesis.tokens == tokens
        log_p_TV = log_p(model, text, tokens)
        nats = sum(float(log_p_TV[n, token]) for n, token in enumerate(tokens))
        assert hypothesis.log_probability == pytest.approx(nats, abs=ROUNDING)


# --- drawing


def drawn(model: ConditionalDecoder, rows: list[int], numbers: list[int], **options: Any) -> list[tuple[int, ...]]:
    return [h.tokens for h in written(model, DecodingConfig(**options), rows, [12] * len(rows), numbers)]


@pytest.mark.parametrize("name", KINDS)
def test_a_text_is_drawn_as_it_would_be_alone(name: str) -> None:
    model = random_translator(name, SOURCE_V, VOCAB)
    together = drawn(model, list(range(8)), list(range(100, 108)), seed=5)
    assert together == [drawn(model, [row], [100 + row], seed=5)[0] for row in range(8)]
    assert drawn(model, [6, 2, 3], [106, 102, 103], seed=5) == [together[row] for row in (6, 2, 3)]


def test_another_seed_and_another_number_draw_another_text() -> None:
    model, rows = random_translator("rnnsearch", SOURCE_V, VOCAB), [0, 3, 5, 7]
    texts = [drawn(model, rows, [first + row for row in rows], seed=seed) for seed, first in ((0, 0), (1, 0), (2**40, 0), (0, 8))]
    for n, one in enumerate(texts):
        assert one not in texts[:n]


@pytest.mark.parametrize("options", [{"temperature": 0.0, "top_p": 0.5}, {"top_k": 1, "temperature": 2.0}], ids=str)
def test_temperature_zero_and_top_k_of_one_are_greedy(options: dict[str, Any]) -> None:
    model = random_translator("transformer", SOURCE_V, VOCAB)
    rows = list(range(8))
    assert drawn(model, rows, rows, **options) == [h.tokens for h in written(model, GREEDY, rows, [12] * 8)]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        # limit: χ² is above it once in 10⁴ draws, for 7, 7, 2 and 3 degrees of freedom
        ({}, 29.9),
        ({"temperature": 3.0}, 29.9),
        ({"top_k": 3}, 18.4),
        ({"top_p": 0.6}, 21.1),
    ],
    ids=str,
)
def test_frequencies_follow_the_distribution_over_the_numbers_of_texts(options: dict[str, Any], limit: float) -> None:
    """p ∝ 8, 7, … 1 at temperature 1. The nucleus of 0.6 is four tokens: 8 + 7 + 6 + 5 of 36 are more, 8 + 7 + 6 are not."""
    draws, config = 8_000, DecodingConfig(**options)
    weight = [(8 - n) ** (1 / config.temperature) for n in range(8)]
    if config.top_k or config.top_p < 1:
        most = config.top_k or next(n for n in range(1, 9) if sum(weight[:n]) / sum(weight) >= config.top_p)
        weight = [w if n < most else 0.0 for n, w in enumerate(weight)]
    expected = [draws * w / sum(weight) for w in weight]
    logits_AV = torch.tensor([math.log(8 - n) for n in range(8)]).expand(draws, -1)
    u_A = torch.tensor([random_numbers(config.seed, number).random() for number in range(draws)], dtype=torch.float64)
    token_A, _ = Chain([TextSoFar(config)] * draws, torch.device("cpu")).choose(logits_AV, u_A)
    seen = torch.bincount(token_A, minlength=8).tolist()
    assert all(count == 0 for count, e in zip(seen, expected, strict=True) if e == 0)
    assert sum((count - e) ** 2 / e for count, e in zip(seen, expected, strict=True) if e > 0) < limit


def test_the_draws_of_one_text_follow_the_distribution_from_token_to_token() -> None:
    """And successive ones are independent: of p = (¼, ¾), the four pairs have p = 1/16, 3/16, 3/16, 9/16."""
    chain, random, draws = Chain([TextSoFar(DecodingConfig())], torch.device("cpu")), random_numbers(3, 17), 4_000
    logits_1V = torch.tensor([[0.25, 0.75]]).log()
    tokens = [int(chain.choose(logits_1V, torch.tensor([random.random()]))[0]) for _ in range(2 * draws)]
    seen = torch.bincount(torch.tensor(tokens[::2]) * 2 + torch.tensor(tokens[1::2]), minlength=4).tolist()
    expected = [draws * p / 16 for p in (1, 3, 3, 9)]
    assert sum((count - e) ** 2 / e for count, e in zip(seen, expected, strict=True)) < 21.1  # once in 10⁴, 3 degrees of freedom


# --- beams of the same models


@pytest.mark.parametrize("name", half(KINDS))
def test_sources_searched_together_are_searched_as_if_alone_and_their_scores_are_true(name: str) -> None:
    model = random_translator(name, SOURCE_V, VOCAB)
    source_BS, length_B = sources()

    def searched(rows: Tensor) -> list[list[Hypothesis]]:
        state = model.start(model.encode(source_BS[rows, : int(length_B[rows].max())], length_B[rows]))
        limits = [LIMITS[int(n)] for n in rows]
        prompt_B1 = torch.full((len(rows), 1), END)
        return beam(model, state, prompt_B1, size=3, limits=limits, end=END, penalty=0.6, unfinished=True)

    together = searched(torch.arange(len(LENGTHS)))
    for text, hypotheses in enumerate(together):
        (alone,) = searched(torch.tensor([text]))
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for hypothesis in hypotheses:
            log_p_TV = log_p(model, text, hypothesis.tokens)
            nats = sum(float(log_p_TV[n, token]) for n, token in enumerate(hypothesis.tokens))
            assert hypothesis.log_probability == pytest.approx(nats, abs=ROUNDING)
            assert hypothesis.score == pytest.approx(nats / ((5 + len(hypothesis.tokens)) / 6) ** 0.6, abs=ROUNDING)
