"""Luong's decoder, against a float64 loop of its equations: one sentence, one step and one source word at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from firth.inspection.inputs import Reading
from firth.inspection.states import states
from firth.layers.state import RecurrentState
from firth.models import RecurrentDecoder, seq2seq
from firth.models.initialise import initialise
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig

Array = npt.NDArray[np.float64]
SOURCE_V, TARGET_V = 11, 9
SOURCE_BS = torch.tensor([[3, 1, 4, 1, 5, 9, 0], [2, 7, 1, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0]])
LENGTH_B = torch.tensor([7, 4, 1])
TOKEN_BT = torch.tensor([[0, 7, 2, 8, 1], [0, 5, 5, 1, 3], [0, 4, 4, 6, 2]])
SCORES = ["additive", "bilinear", "dot", "scaled_dot", "gaussian", "cosine"]


def luong(kind: str = "gru", **settings: Any) -> RecurrentDecoder:
    given: dict[str, Any] = {"width": 6, "embedding": 5, "decoder": "luong", "kind": kind} | settings
    if given.get("attention", "additive") not in ("additive", "bilinear"):
        given["bidirectional"] = False
    model: Any = seq2seq(RecurrentSeq2SeqConfig(**given), SOURCE_V, TARGET_V)
    initialise(model, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:  # zeros would hide a mistake
                parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    return model.double().eval()


def array(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().numpy(), np.float64)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    weight = np.exp(x - x.max())
    return np.asarray(weight / weight.sum())


def cell(model: RecurrentDecoder, layer: int, x: Array, state: list[Array]) -> list[Array]:
    """torch's equations of each cell, from its stacked weights."""
    weights: Any = model.recurrent.layers[layer]  # type: ignore[union-attr]
    W, U, b, b_h = (array(next(p for n, p in weights.named_parameters() if n.startswith(name))) for name in NAMES)
    h = state[0]
    if model.config.kind == "rnn":
        return [np.tanh(W @ x + b + U @ h + b_h)]
    if model.config.kind == "lstm":
        i, f, g, o = np.split(W @ x + b + U @ h + b_h, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    (xr, xz, xn), (hr, hz, hn) = np.split(W @ x + b, 3), np.split(U @ h + b_h, 3)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return [(1 - z) * np.tanh(xn + r * hn) + z * h]


NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def score(model: RecurrentDecoder, h: Array, m: Array) -> float:
    part: Any = model.attentional
    match model.config.attention:
        case "additive":
            return float(array(part.attend.w_HA[0]) @ np.tanh(array(part.query.weight) @ h + array(part.key.weight) @ m))
        case "bilinear":
            return float((array(part.query.weight) @ h) @ bilinear(part) @ m)
        case "dot":
            return float(h @ m)
        case "scaled_dot":
            return float(h @ m) / math.sqrt(len(h))
        case "gaussian":
            return float(-0.5 * ((h - m) ** 2).sum())
        case _:
            scale = float(part.attend.log_tau_H.detach().exp())
            return scale * float(h @ m) / (float(np.linalg.norm(h)) * float(np.linalg.norm(m)))


def bilinear(part: Any) -> Array:
    """M of the score, beside the product that makes the query as wide as the memory."""
    own = dict(part.attend.named_parameters())
    return array(next(iter(own.values()))[0]) if own else np.eye(part.query.weight.shape[0])


def loop(model: RecurrentDecoder, row: int) -> tuple[Array, Array]:
    """α_TS and p_TV of one sentence."""
    encoded = model.encode(SOURCE_BS, LENGTH_B)
    memory = array(encoded.memory_BSm[row, : LENGTH_B[row]])
    state = [[array(part[layer, row]) for part in model.start(encoded).recurrent.parts] for layer in range(model.config.depth)]
    W_c = array(model.attentional.combine.weight)  # type: ignore[union-attr]
    W_y, b_y = (array(part) for part in (model.output.weight, model.output.bias))  # type: ignore[union-attr]
    fed, alignments, probabilities = np.zeros(model.config.width), [], []
    for e in array(model.embedding(TOKEN_BT[row])):
        x = np.concatenate((e, fed)) if model.config.input_feeding else e
        for layer in range(model.config.depth):
            state[layer] = cell(model, layer, x, state[layer])
            x = state[layer][0]
        alpha = softmax(np.array([score(model, x, m) for m in memory]))
        c = sum(a * m for a, m in zip(alpha, memory, strict=True))
        fed = np.tanh(W_c @ np.concatenate((c, x)))
        alignments.append(alpha)
        probabilities.append(softmax(W_y @ fed + b_y))
    return np.array(alignments), np.array(probabilities)


@pytest.mark.parametrize("feeding", [False, True], ids=["", "input feeding"])
@pytest.mark.parametrize(
    ("kind", "depth", "attention"), [("rnn", 1, "additive"), ("lstm", 2, "bilinear"), *(("gru", 1, name) for name in SCORES)]
)
def test_luongs_decoder_is_the_published_one(kind: str, depth: int, attention: str, feeding: bool) -> None:
    model = luong(kind, depth=depth, attention=attention, input_feeding=feeding)
    p_BTV = model(SOURCE_BS, LENGTH_B, TOKEN_BT).softmax(-1)
    alignment_BTS = model.alignment(SOURCE_BS, LENGTH_B, TOKEN_BT)
    for row, length in enumerate(LENGTH_B.tolist()):
        alpha_TS, p_TV = loop(model, row)
        np.testing.assert_allclose(array(p_BTV[row]), p_TV, rtol=1e-9)
        np.testing.assert_allclose(array(alignment_BTS[row, :, :length]), alpha_TS, rtol=1e-9)
        assert not alignment_BTS[row, :, length:].any()


@pytest.mark.parametrize("feeding", [False, True], ids=["", "input feeding"])
@pytest.mark.parametrize("attention", ["additive", "bilinear", "dot"])
def test_gradients_are_those_of_finite_differences(attention: str, feeding: bool) -> None:
    model = luong(attention=attention, input_feeding=feeding)
    weights = {name: part for name, part in model.named_parameters() if name.startswith(("attentional", "recurrent", "first"))}
    names = list(weights)

    def loss(*values: Tensor) -> Tensor:
        logits_BTV = torch.func.functional_call(
            model, dict(zip(names, values, strict=True)), (SOURCE_BS[:2], LENGTH_B[:2], TOKEN_BT[:2, :3])
        )
        return nn.functional.cross_entropy(logits_BTV.flatten(0, 1), TOKEN_BT[:2, 1:4].flatten())

    values = tuple(part.detach().clone().requires_grad_() for part in weights.values())
    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


def test_the_current_state_attends_and_not_the_previous_one() -> None:
    """The token just read changes where Luong's decoder looks in this step; in Bahdanau's, only where it looks in the next."""
    other_BT = TOKEN_BT.clone()
    other_BT[:, 0] = 3
    for decoder, changes in (("luong", True), ("bahdanau", False)):
        model = luong(decoder=decoder)
        first, second = (model.alignment(SOURCE_BS, LENGTH_B, tokens)[:2, 0] for tokens in (TOKEN_BT, other_BT))
        assert torch.equal(first, second) != changes


def test_what_attention_found_matters_for_the_next_state_only_with_input_feeding() -> None:
    for feeding in (False, True):
        model = luong(input_feeding=feeding)
        state = model.start(model.encode(SOURCE_BS, LENGTH_B))
        _, plain = model.step(TOKEN_BT[:, :2], state)
        with torch.no_grad():
            model.attentional.combine.weight.neg_()  # type: ignore[union-attr]
        _, turned = model.step(TOKEN_BT[:, :2], state)
        assert isinstance(plain.recurrent, RecurrentState)
        assert torch.equal(plain.recurrent.h_LBd, turned.recurrent.h_LBd) != feeding


@pytest.mark.parametrize("feeding", [False, True], ids=["", "input feeding"])
def test_the_states_of_the_decoder_are_shown_for_every_token(feeding: bool) -> None:
    model = luong("lstm", depth=2, input_feeding=feeding)
    tokens, length_1 = SOURCE_BS[:1], LENGTH_B[:1]

    def run() -> Any:
        return model.hidden(TOKEN_BT[:1], model.start(model.encode(tokens, length_1)))

    reading = Reading(model, run, tuple("abcdefg"), tuple("vwxyz"), pieces=False)
    shown = states(reading)
    names = [level.name for level in shown.levels]
    assert names[-2:] == ["decoder layer 1", "decoder layer 2"]
    with torch.no_grad():
        state = model.start(model.encode(tokens, length_1))
        for t in range(5):
            _, state = model.step(TOKEN_BT[:1, t : t + 1], state)
            for layer in range(2):
                np.testing.assert_allclose(shown.levels[layer - 2].h[t], array(state.recurrent.h_LBd[layer, 0]), rtol=1e-5)
    assert set(shown.levels[-1].gates()) == {"h", "c", "input", "forget", "candidate", "output"}
