"""Alignments: the weights that the models themselves looked with, row by row, and their words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from translations import random_translator

from firth.errors import ConfigError
from firth.inspection.alignment import Alignment, alignment
from firth.layers.attention import mask
from firth.models import ConditionalDecoder, RecurrentDecoder, TransformerDecoder

SOURCE_V, VOCAB, END = 11, 9, 0
SOURCE_S = np.array([4, 7, 1, 10, END])
TARGET_T = np.array([3, 8, 2, END])
INPUT_1T = torch.tensor([[END, 3, 8, 2]])
SOURCE_PIECES = [" un", "do", " it", ".", "<eos>"]
TARGET_PIECES = ["re", "do", " so", "<eos>"]


def looked(network: ConditionalDecoder, merged: bool = False) -> Alignment:
    return alignment(network, SOURCE_S, TARGET_T, SOURCE_PIECES, TARGET_PIECES, merged=merged)


def given() -> tuple[Tensor, Tensor]:
    return torch.from_numpy(SOURCE_S).unsqueeze(0), torch.tensor([len(SOURCE_S)])


def test_of_rnnsearch_it_is_alpha() -> None:
    network = random_translator("rnnsearch", SOURCE_V, VOCAB)
    assert isinstance(network, RecurrentDecoder)
    aligned = looked(network)
    with torch.no_grad():
        alpha_TS = network.alignment(*given(), INPUT_1T)[0].numpy()
    assert list(aligned.weights) == ["α"]
    np.testing.assert_allclose(aligned.best, alpha_TS, rtol=1e-9)
    assert (aligned.source, aligned.target) == (tuple(SOURCE_PIECES), tuple(TARGET_PIECES))


def by_hand(network: TransformerDecoder, layer: int, head: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """softmax(q kᵀ/√D), with q of what the layer is given and k of the whole encoder, from their matrices alone."""
    cross: Any = network.decoder.blocks[layer].cross
    seen: list[Tensor] = []
    handle = cross.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    source_1S, length_1 = given()
    with torch.no_grad():
        network.teacher_forced(INPUT_1T, network.encode(source_1S, length_1))
        handle.remove()
        D, group = cross.head_width, head // (network.config.attention.heads // network.config.attention.groups)
        q_TD = (seen[0][0] @ cross.query.weight.T)[:, head * D : (head + 1) * D]
        k_SD = (encoded(network, source_1S) @ cross.kv.weight.T)[:, group * D : (group + 1) * D]
        score_TS = (q_TD @ k_SD.T).numpy() / math.sqrt(D)
    p_TS = np.exp(score_TS - score_TS.max(-1, keepdims=True))
    return np.asarray(p_TS / p_TS.sum(-1, keepdims=True))


def encoded(network: TransformerDecoder, source_1S: Tensor) -> Tensor:
    x_1Sd = network.encoder.embed_positions(network.source_embedding(source_1S), 0)
    return network.encoder.run_blocks(x_1Sd, mask.FULL)[0][0]


def test_of_a_transformer_it_is_the_softmax_of_its_scores_in_every_layer_and_head() -> None:
    network = random_translator("transformer", SOURCE_V, VOCAB)
    assert isinstance(network, TransformerDecoder)
    aligned = looked(network)
    for layer in range(2):
        truth = [by_hand(network, layer, head) for head in range(2)]
        for head, p_TS in enumerate(truth):
            np.testing.assert_allclose(aligned.weights[f"layer {layer + 1}, head {head + 1}"], p_TS, rtol=1e-9)
        np.testing.assert_allclose(aligned.weights[f"layer {layer + 1}"], np.mean(truth, axis=0), rtol=1e-9)


def test_the_layer_below_the_last_is_the_one_to_look_at() -> None:
    aligned = looked(random_translator("transformer", SOURCE_V, VOCAB))
    heads = [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)]
    assert list(aligned.weights) == ["layer 1", "layer 2", *heads]
    assert aligned.best is aligned.weights["layer 1"]


@pytest.mark.parametrize("name", ["rnnsearch", "transformer"])
@pytest.mark.parametrize("merged", [False, True])
def test_rows_sum_to_one(name: str, merged: bool) -> None:
    aligned = looked(random_translator(name, SOURCE_V, VOCAB), merged)
    for alpha_TS in aligned.weights.values():
        assert alpha_TS.shape == (len(aligned.target), len(aligned.source))
        np.testing.assert_allclose(alpha_TS.sum(-1), 1.0, rtol=1e-9)


def test_pieces_become_words() -> None:
    network = random_translator("rnnsearch", SOURCE_V, VOCAB)
    alpha_TS, aligned = looked(network).best, looked(network, merged=True)
    assert (aligned.source, aligned.target) == (("undo", "it", ".", "<eos>"), ("redo", "so", "<eos>"))
    assert aligned.best[0, 0] == pytest.approx(alpha_TS[:2, :2].sum() / 2)
    assert aligned.best[2, 3] == pytest.approx(alpha_TS[3, 4])


def test_it_can_be_drawn_and_printed() -> None:
    aligned = looked(random_translator("transformer", SOURCE_V, VOCAB))
    table = aligned.figure().table
    assert len(table.rows) == len(aligned.weights) * len(aligned.source) * len(aligned.target)
    lines = aligned.text(60).splitlines()
    assert lines[0].split() == ["un", "do", "it", ".", "<eos>"]
    assert [line.split()[0] for line in lines[1:5]] == ["re", "do", "so", "<eos>"]


def test_a_fixed_vector_looks_at_nothing() -> None:
    with pytest.raises(ConfigError, match=r'model\.attention = "none"\), so there is no alignment\. Use a run with attention'):
        looked(random_translator("rnnenc", SOURCE_V, VOCAB))
