"""Perplexity, against a loop over the text in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import random_model

from firth.evaluation.perplexity import Perplexity, perplexity
from firth.models import LanguageModel
from firth.text import TokenFile

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
@pytest.mark.parametrize("batch", [1, 2, 4])
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
