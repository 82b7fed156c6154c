"""log p of sentence pairs, against a loop over one pair at a time in float64."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from translations import CONFIGS, random_translator

from firth.evaluation.pairs import likelihood
from firth.models import ConditionalDecoder, seq2seq
from firth.text.batches.pairs import Pairs

SOURCE_V, VOCAB, END = 11, 9, 0


def pairs_of(lengths: list[tuple[int, int]]) -> Pairs:
    """Pairs of these lengths, <eos> included on both sides."""
    generator = np.random.default_rng(0)

    def sentence(length: int, vocab: int) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        return np.append(generator.integers(1, vocab, length - 1), END).astype(np.uint16)

    return Pairs.of([sentence(s, SOURCE_V) for s, _ in lengths], [sentence(t, VOCAB) for _, t in lengths])


PAIRS = pairs_of([(5, 3), (2, 7), (1, 1), (8, 8), (3, 3), (6, 2), (4, 9), (3, 1)])


def nats_of(model: ConditionalDecoder, n: int) -> list[float]:
    """−log p of each token of the target of pair n, one prefix after the other."""
    source_S = PAIRS.source_ids[PAIRS.source_starts[n] : PAIRS.source_starts[n + 1]].astype(np.int64)
    target_T = PAIRS.target_ids[PAIRS.target_starts[n] : PAIRS.target_starts[n + 1]].astype(np.int64)
    source_1S, length_1 = torch.from_numpy(source_S).unsqueeze(0), torch.tensor([len(source_S)])
    nats = []
    for t, token in enumerate(target_T):
        before_1T = torch.tensor([[END, *target_T[:t]]])
        with torch.no_grad():
            nats.append(-float(torch.log_softmax(model(source_1S, length_1, before_1T)[0, -1], -1)[token]))
    return nats


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_the_mean_over_all_tokens_of_all_pairs(name: str) -> None:
    nats = [value for n in range(len(PAIRS)) for value in nats_of(random_translator(name, SOURCE_V, VOCAB), n)]
    scores = likelihood(random_translator(name, SOURCE_V, VOCAB, torch.float32), PAIRS, batch_tokens=24)
    assert scores.tokens == len(nats) == PAIRS.tokens
    assert scores.loss == pytest.approx(math.fsum(nats) / len(nats), rel=1e-5)  # float32 logits of up to about 10
    assert scores.perplexity == pytest.approx(math.exp(scores.loss))


@pytest.mark.parametrize("batch_tokens", [1, 9, 20, 10_000])
def test_how_the_pairs_are_put_together_changes_nothing(batch_tokens: int) -> None:
    model = random_translator("transformer", SOURCE_V, VOCAB, torch.float32)
    alone = likelihood(model, PAIRS, batch_tokens=16)
    assert likelihood(model, PAIRS, batch_tokens=batch_tokens).loss == pytest.approx(alone.loss, rel=1e-5)


def test_dropout_is_left_out_and_a_model_in_training_goes_on_training() -> None:
    model = random_translator("rnnsearch", SOURCE_V, VOCAB, torch.float32)
    forgetful = seq2seq(dataclasses.replace(CONFIGS["rnnsearch"], dropout=0.5), SOURCE_V, VOCAB)
    forgetful.load_state_dict(model.state_dict())
    quiet = likelihood(model, PAIRS, batch_tokens=64)
    for training in (True, False):
        forgetful.train(training)
        assert likelihood(forgetful, PAIRS, batch_tokens=64) == quiet
        assert forgetful.training == training


def test_every_pair_is_counted_as_it_is_done() -> None:
    seen: list[tuple[str, int, int]] = []
    model = random_translator("rnnenc", SOURCE_V, VOCAB, torch.float32)
    likelihood(model, PAIRS, batch_tokens=12, progress=lambda what, done, total: seen.append((what, done, total)))
    assert seen[-1] == ("evaluating", len(PAIRS), len(PAIRS))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
