"""Prompts that tell a task by examples: what they say, that held-out tasks are never trained, that a batch is seed and number."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from firth.errors import ConfigError
from firth.text.config import LinearConfig, SwapsConfig, TokenizerConfig
from firth.text.data.in_context import FreshPrompts, prepare_linear, prepare_swaps, prompt_tokens
from firth.text.datasets.in_context_tasks import LinearFunctions, PointBatch, SwapBatch, SwapPrompts, Swaps, tasks_of

SWAPS = SwapsConfig(name="swaps", letters=5, word_length=4, examples=3, count=200)
LINEAR = LinearConfig(name="linear", dimensions=3, examples=4, count=200)


def drawn(part: str = "train", count: int = 50, seed: int = 0) -> SwapPrompts:
    return Swaps(letters=5, word_length=4, examples=3).draw(part, count, np.random.default_rng(seed))  # type: ignore[arg-type]


def test_a_prompt_reads_as_words_and_what_their_letters_become() -> None:
    prompts = SwapPrompts(np.array([[[0, 1, 2], [2, 2, 0]]]), np.array([[1, 2, 0]]))
    assert prompts.text(0) == "abc>bca;cca>aab;"


def test_one_permutation_makes_all_answers_of_a_prompt() -> None:
    prompts = drawn()
    for row in range(len(prompts)):
        *examples, end = prompts.text(row).split(";")
        assert end == ""
        assert len(examples) == 4
        becomes = {letter: "abcde"[place] for letter, place in zip("abcde", prompts.becomes_BA[row].tolist(), strict=True)}
        assert sorted(becomes.values()) == list("abcde")
        for word, answer in (example.split(">") for example in examples):
            assert answer == "".join(becomes[letter] for letter in word)


def test_the_tokens_are_those_of_the_text_and_only_answers_are_asked() -> None:
    prompts, tokenizer = drawn(), prepare_swaps(SWAPS, TokenizerConfig()).tokenizer
    batch = prompts.batch()
    assert batch.token_BT.shape == (50, prompt_tokens(SWAPS))
    assert batch.tokens == batch.token_BT.size
    for row in range(len(prompts)):
        text = prompts.text(row)
        assert tokenizer.decode(batch.token_BT[row]) == text[:-1]
        asked = [character if before in ">" or inside else "-" for character, before, inside in _walk(text)]
        target = "".join("-" if id < 0 else tokenizer.token(int(id)) for id in batch.target_BT[row])
        assert target == "".join(asked)


def _walk(text: str) -> list[tuple[str, str, bool]]:
    """Each character but the first, the one before it, and whether it goes on with an answer."""
    steps, answering = [], False
    for before, character in itertools.pairwise(text):
        answering = (answering or before == ">") and character != ";"
        steps.append((character, before, answering))
    return steps


def test_some_of_many_are_read_as_they_are_among_all() -> None:
    prompts = drawn()
    whole, some = prompts.batch(), prompts.batch(10, 20)
    assert np.array_equal(some.token_BT, whole.token_BT[10:20])
    assert np.array_equal(some.target_BT, whole.target_BT[10:20])


@pytest.mark.parametrize("letters", [3, 4, 5])
def test_each_permutation_belongs_to_one_part(letters: int) -> None:
    parts = [{tuple(row) for row in tasks_of(letters, part).tolist()} for part in ("train", "valid", "test")]
    every = set(itertools.permutations(range(letters)))
    assert parts[0] | parts[1] | parts[2] == every
    assert sum(map(len, parts)) == len(every)
    assert len(parts[1]) == len(parts[2]) == max(1, len(every) // 10)


def test_what_is_tested_was_never_trained_and_all_that_is_trained_is_asked() -> None:
    tasks = {part: {tuple(row) for row in drawn(part, 900).becomes_BA.tolist()} for part in ("train", "valid", "test")}
    assert not tasks["train"] & (tasks["valid"] | tasks["test"])
    assert not tasks["valid"] & tasks["test"]
    assert len(tasks["train"]) == len(tasks_of(5, "train"))


def test_y_is_w_times_x_and_the_noise_is_as_large_as_asked() -> None:
    plain = LinearFunctions(dimensions=3, noise=0.0, examples=9).draw("train", 400, np.random.default_rng(3))
    noisy = LinearFunctions(dimensions=3, noise=0.5, examples=9).draw("train", 400, np.random.default_rng(3))
    assert np.array_equal(plain.x_BED, noisy.x_BED)
    for x_ED, y_E in zip(plain.x_BED, plain.y_BE, strict=True):  # ten equations, three unknowns
        w_D, *_ = np.linalg.lstsq(x_ED, y_E, rcond=None)
        assert np.allclose(x_ED @ w_D, y_E, atol=1e-4)
    assert np.std(noisy.y_BE - plain.y_BE) == pytest.approx(0.5, rel=0.05)
    assert np.var(plain.y_BE) == pytest.approx(3.0, rel=0.15)
    assert plain.x_BED.dtype == plain.y_BE.dtype == np.float32


@pytest.mark.parametrize("tasks", [Swaps(5, 4, 3), LinearFunctions(3, 0.0, 4)], ids=["swaps", "linear"])
def test_a_batch_is_seed_and_number_and_none_comes_twice(tasks: Swaps | LinearFunctions) -> None:
    one, other = FreshPrompts(tasks, 8, seed=1), FreshPrompts(tasks, 8, seed=1)
    batches = [one.next() for _ in range(4)]
    other.seek(2)
    assert other.position == 2
    assert _same(other.next(), batches[2])
    assert other.position == 3
    another = FreshPrompts(tasks, 8, seed=2)
    assert not any(_same(*pair) for pair in itertools.combinations([*batches, another.next()], 2))


def _same(one: SwapBatch | PointBatch, other: SwapBatch | PointBatch) -> bool:
    if isinstance(one, SwapBatch) and isinstance(other, SwapBatch):
        return np.array_equal(one.token_BT, other.token_BT)
    assert isinstance(one, PointBatch)
    assert isinstance(other, PointBatch)
    return np.array_equal(one.x_BED, other.x_BED)


def test_runs_are_validated_and_tested_on_the_same_prompts_which_have_a_hash() -> None:
    one, other = prepare_swaps(SWAPS, TokenizerConfig()), prepare_swaps(SWAPS, TokenizerConfig())
    assert len(one.train) == len(one.valid) == len(one.test) == 20
    assert one.sha256 == other.sha256
    assert np.array_equal(one.test.word_BEL, other.test.word_BEL)
    assert not np.array_equal(one.test.word_BEL, one.valid.word_BEL)
    lines = prepare_linear(LINEAR, TokenizerConfig())
    assert not np.array_equal(lines.test.x_BED, lines.valid.x_BED)
    longer = [
        prepare_swaps(dataclasses.replace(SWAPS, examples=4), TokenizerConfig()),
        prepare_linear(dataclasses.replace(LINEAR, examples=5), TokenizerConfig()),
    ]
    assert len({one.sha256, lines.sha256, *(data.sha256 for data in longer)}) == 4


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"examples": 0}, "data.examples is 0; expected 1 or more"),
        ({"letters": 2}, "data.letters is 2; expected 3 to 8"),
        ({"letters": 9}, "data.letters is 9; expected 3 to 8"),
        ({"word_length": 0}, "data.word_length is 0; expected 1 or more"),
        ({"dimensions": 0}, "data.dimensions is 0; expected 1 or more"),
        ({"noise": -0.1}, "data.noise is -0.1; expected 0 or more"),
        ({"noise": float("inf")}, "data.noise is inf; expected 0 or more"),
        ({"noise": float("nan")}, "data.noise is nan; expected 0 or more"),
    ],
)
def test_what_no_prompt_can_be_made_of_is_refused(settings: dict[str, int | float], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        (LinearConfig if settings.keys() & {"dimensions", "noise"} else SwapsConfig)(name="swaps", **settings)  # type: ignore[arg-type]
