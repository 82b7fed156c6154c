"""Perplexity, against a loop over the text in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shares import half
from small_models import random_model

from firth.errors import DataError
from firth.evaluation import perplexity as perplexity_module
from firth.evaluation.perplexity import Perplexity, RandomLoss, perplexity, random_loss, stream_shape
from firth.models import LanguageModel
from firth.text.batches.token_files import TokenFile
from firth.text.batches.windows import sweep_streams

VOCAB, CONTEXT = 13, 12
FLOAT32 = 2e-6  # share; the softmax is in float32, the sum in float64


def text(count: int, characters: int | None = None) -> TokenFile:
    ids = np.random.default_rng(0).integers(VOCAB, size=count).astype(np.uint16)
    return TokenFile(ids, count if characters is None else characters, Path("unused"))


def nats(model: LanguageModel, ids: np.ndarray, start: int, target: int) -> float:
    """−log p(ids[target] | ids[start : target])."""
    with torch.inference_mode():
        logits_TV = model(torch.from_numpy(ids[start:target].astype(np.int64)).unsqueeze(0))[0][0]
    return -float(torch.log_softmax(logits_TV[-1].double(), -1)[int(ids[target])])


def by_hand(model: LanguageModel, ids: np.ndarray, starts: list[int]) -> float:
    """Mean over all tokens but the first, each given what follows the last of `starts` before it."""
    return math.fsum(nats(model, ids, max(s for s in starts if s < t), t) for t in range(1, len(ids))) / (len(ids) - 1)


def measured(model: LanguageModel, file: TokenFile, batch: int = 1, lossless: bool = True, dtype: str = "float32") -> Perplexity:
    return perplexity(model, file, lossless=lossless, batch=batch, context=CONTEXT, dtype=dtype)


@pytest.mark.parametrize("count", [2, CONTEXT, CONTEXT + 1, CONTEXT + 2, 5 * CONTEXT + 3])
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_a_recurrent_model_carries_its_state_along_the_whole_text(name: str, count: int) -> None:
    model, file = random_model(name, VOCAB), text(count)
    assert measured(model, file).loss == pytest.approx(by_hand(model, file.ids, [0]), rel=FLOAT32)


@pytest.mark.parametrize("count", [2, CONTEXT, CONTEXT + 1, CONTEXT + 2, 5 * CONTEXT + 3])
@pytest.mark.parametrize("batch", half([1, 2, 4]))
@pytest.mark.parametrize("name", ["transformer, rotary", "transformer, learned"])
def test_a_transformer_reads_windows_that_do_not_overlap(name: str, batch: int, count: int) -> None:
    model, file = random_model(name, VOCAB), text(count)
    assert measured(model, file, batch).loss == pytest.approx(
        by_hand(model, file.ids, list(range(0, count, CONTEXT))), rel=FLOAT32
    )


def test_streams_side_by_side_each_carry_their_own_state() -> None:
    """86 predictions in 4 streams of 21 that start afresh, and 2 left over that do too."""
    model, file = random_model("lstm", VOCAB), text(87)
    assert measured(model, file, 4).loss == pytest.approx(by_hand(model, file.ids, [0, 21, 42, 63, 84]), rel=FLOAT32)


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("count", [2, 29, 100])
@pytest.mark.parametrize("name", ["gru", "transformer, no positions"])
def test_each_token_but_the_first_is_counted_once(name: str, count: int, batch: int) -> None:
    assert measured(random_model(name, VOCAB), text(count), batch).tokens == count - 1


def test_a_uniform_model_has_the_vocabulary_as_perplexity() -> None:
    model = random_model("rnn", VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    result = measured(model, text(50))
    assert result.perplexity == pytest.approx(VOCAB, rel=FLOAT32)
    assert result.bits_per_character == pytest.approx(math.log2(VOCAB), rel=FLOAT32)


def test_perplexity_is_e_to_the_loss_and_bits_are_nats_over_ln_2() -> None:
    result = measured(random_model("lstm", VOCAB), text(70))
    assert result.perplexity == pytest.approx(math.exp(result.loss))
    assert result.bits_per_character == pytest.approx(result.loss / math.log(2))


def test_bits_are_shared_among_the_characters_that_the_tokens_spell() -> None:
    model = random_model("lstm", VOCAB)
    one, three = measured(model, text(70)), measured(model, text(70, characters=210))
    assert one.bits_per_character == pytest.approx(3 * (three.bits_per_character or 0))


def test_a_tokenizer_that_loses_something_has_no_bits_per_character() -> None:
    result = measured(random_model("lstm", VOCAB), text(70), lossless=False)
    assert result.bits_per_character is None
    assert result.loss == measured(random_model("lstm", VOCAB), text(70)).loss


@pytest.mark.parametrize("name", ["lstm", "transformer, rotary"])
def test_bf16_is_as_near_as_a_model_all_in_bf16(name: str) -> None:
    file = text(200)
    exact = measured(random_model(name, VOCAB), file, 4).loss
    mixed = measured(random_model(name, VOCAB, torch.float32), file, 4, dtype="bf16").loss
    plain = measured(random_model(name, VOCAB, torch.bfloat16), file, 4).loss
    assert mixed != measured(random_model(name, VOCAB, torch.float32), file, 4).loss, "bf16 was not used"
    assert abs(mixed - exact) <= 2 * abs(plain - exact) + 4 * torch.finfo(torch.bfloat16).eps * exact


def test_measuring_switches_dropout_off_and_leaves_the_model_as_it_was() -> None:
    model = random_model("rnn", VOCAB)
    model.config = type(model.config)(kind="rnn", width=9, depth=2, dropout=0.5)
    model.recurrent.dropout = 0.5
    quiet = measured(model, text(70)).loss
    model.train()
    assert measured(model, text(70)).loss == quiet
    assert model.training


@pytest.mark.parametrize("name", ["gru", "transformer, rotary"])
def test_progress_counts_every_predicted_token_and_ends_full(name: str) -> None:
    told: list[tuple[str, int, int]] = []
    model = random_model(name, VOCAB)
    perplexity(model, text(50), lossless=True, batch=2, context=8, progress=lambda *now: told.append(now))
    assert told[-1] == ("evaluating", 49, 49)
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})


# how many streams, and how long their windows


@given(count=st.integers(2, 5000), streams=st.none() | st.integers(1, 90), context=st.integers(1, 300))
def test_a_text_is_read_in_as_many_streams_as_asked_none_shorter_than_a_context(
    count: int, streams: int | None, context: int
) -> None:
    rows, window = stream_shape(text(count), streams, context)
    assert rows == max(1, min(streams or 1, (count - 1) // context))
    first = next(sweep_streams(text(count).ids, rows, window))
    assert first.input_BT.shape == (rows, window)  # it is what perplexity makes of the two numbers


@pytest.mark.parametrize("streams", [None, 1, 3])
def test_windows_longer_than_the_context_give_the_same_loss(streams: int | None) -> None:
    model, file = random_model("lstm", VOCAB), text(1300)
    batch, context = stream_shape(file, streams, CONTEXT)
    assert context > CONTEXT
    longer = perplexity(model, file, lossless=True, batch=batch, context=context)
    assert longer.loss == pytest.approx(measured(model, file, batch).loss, rel=FLOAT32)


def test_only_a_very_long_text_is_cut_into_streams_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream_shape(text(300_000), None, CONTEXT)[0] == 1
    monkeypatch.setattr(perplexity_module, "_LONG", 100)
    assert stream_shape(text(1 + 199), None, CONTEXT)[0] == 1
    assert stream_shape(text(1 + 200), None, CONTEXT)[0] == 2
    assert stream_shape(text(1 + 200), 1, CONTEXT)[0] == 1


# random windows


def estimated(model: LanguageModel, file: TokenFile, batches: int, seed: int = 5) -> RandomLoss:
    return random_loss(model, file, batches, batch=3, context=CONTEXT, seed=seed)


@pytest.mark.parametrize("name", ["gru", "transformer, rotary"])
def test_a_random_loss_is_the_mean_over_batches_of_windows_that_begin_without_a_past(name: str) -> None:
    model, file = random_model(name, VOCAB), text(40)
    generator = torch.Generator().manual_seed(5)
    batches = []
    for _ in range(4):
        starts = torch.randint(40 - CONTEXT, (3, 1), generator=generator).flatten().tolist()
        window = [nats(model, file.ids, start, start + 1 + n) for start in starts for n in range(CONTEXT)]
        batches.append(math.fsum(window) / len(window))
    scores = estimated(model, file, 4)
    mean = sum(batches) / 4
    assert scores.loss_random == pytest.approx(mean, rel=FLOAT32)
    deviation = math.sqrt(sum((loss - mean) ** 2 for loss in batches) / (4 - 1))
    assert scores.loss_random_error == pytest.approx(deviation / math.sqrt(4), rel=1e-4)
    assert scores.random_batches == 4


def test_random_windows_start_anywhere_and_nowhere_else() -> None:
    """A text whose tokens count up shows where a window starts."""
    file = TokenFile(np.arange(CONTEXT + 3, dtype=np.uint16), CONTEXT + 3, Path("unused"))
    windows = list(perplexity_module._random_windows(file, 40, 3, CONTEXT, 0))
    assert {int(start) for window in windows for start in window.input_BT[:, 0]} == {0, 1, 2}
    for window in windows:
        assert window.fresh
        assert window.input_BT.shape == (3, CONTEXT)
        assert (window.input_BT == window.input_BT[:, :1] + np.arange(CONTEXT)).all()
        assert (window.target_BT == window.input_BT + 1).all()


def test_the_seed_decides_the_random_windows() -> None:
    model, file = random_model("rnn", VOCAB), text(200)
    assert estimated(model, file, 3) == estimated(model, file, 3)
    assert estimated(model, file, 3).loss_random != estimated(model, file, 3, seed=6).loss_random


def test_the_random_loss_tends_to_the_loss_of_all_windows() -> None:
    """Within four standard errors of the mean over every start there is."""
    model, file = random_model("transformer, rotary", VOCAB), text(CONTEXT + 30)
    every = [nats(model, file.ids, start, start + 1 + n) for start in range(30) for n in range(CONTEXT)]
    scores = estimated(model, file, 300)
    assert scores.loss_random_error is not None
    assert abs(scores.loss_random - sum(every) / len(every)) < 4 * scores.loss_random_error


def test_a_single_batch_has_no_standard_error() -> None:
    assert estimated(random_model("rnn", VOCAB), text(50), 1).loss_random_error is None


def test_a_text_of_one_window_has_one_start_and_a_shorter_one_is_refused() -> None:
    model, file = random_model("rnn", VOCAB), text(CONTEXT + 1)
    assert estimated(model, file, 2).loss_random == pytest.approx(by_hand(model, file.ids, [0]), rel=FLOAT32)
    with pytest.raises(
        DataError, match=r"the text has 12 tokens, .* training\.context = 12 needs at least 13\. .*random_batches"
    ):
        estimated(model, text(CONTEXT), 2)


def test_random_batches_tell_how_far_they_are() -> None:
    told: list[tuple[str, int, int]] = []
    model = random_model("rnn", VOCAB)
    random_loss(model, text(50), 3, batch=2, context=8, seed=0, progress=lambda *now: told.append(now))
    assert told == [("random batches", n, 3) for n in (1, 2, 3)]
