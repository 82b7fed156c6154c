"""Gradient flow: against autograd that starts again from each h_t, one position at a time, in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import CONFIGS, random_model
from torch import Tensor

from firth.api import load
from firth.errors import ConfigError, DataError
from firth.inspection.gradient_flow import compare_flow, flow, flows_figure, fresh, model_kinds
from firth.layers.recurrent import CELLS
from firth.layers.state import RecurrentState
from firth.models import LanguageModel, RecurrentConfig, RecurrentLM, TransformerConfig, TransformerLM

VOCAB = 11
IDS = np.array([3, 1, 4, 1, 5, 9, 2])
TOKENS = [str(id) for id in IDS]


def loss(network: LanguageModel, x_1d: Tensor) -> Tensor:
    return F.cross_entropy(network.readout(x_1d), torch.tensor(IDS[-1:]))


def read_on(network: RecurrentLM, state: RecurrentState, start: int) -> Tensor:
    """The loss of the last token, from a state that has read the first `start`."""
    x_1d = state.h_LBd[-1]
    for id in IDS[start:-1]:
        x_1Td, state = network.hidden(torch.tensor([[id]]), state)
        x_1d = x_1Td[:, -1]
    return loss(network, x_1d)


def by_starting_again(network: RecurrentLM) -> list[float]:
    """‖∂loss/∂s_t‖ from a graph that begins at s_t, by distance."""
    norms, state = [], network.start(1)
    for t in range(len(IDS) - 1):
        with torch.no_grad():
            _, state = network.hidden(torch.tensor([[IDS[t]]]), state)
        parts = [part.clone().requires_grad_() for part in (state.h_LBd, state.c_LBd) if part is not None]
        read_on(network, RecurrentState(*parts), t + 1).backward()
        norms.append(float(sum(part.grad.pow(2).sum() for part in parts if part.grad is not None)) ** 0.5)
    return norms[::-1]


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if isinstance(config, RecurrentConfig)])
def test_of_a_recurrent_model_it_is_the_gradient_at_all_that_it_knows(name: str) -> None:
    network = random_model(name, VOCAB)
    assert isinstance(network, RecurrentLM)
    gradients = flow(network, IDS, TOKENS)
    np.testing.assert_allclose(gradients.state, by_starting_again(network), rtol=1e-9)
    assert gradients.tokens == tuple(reversed(TOKENS[:-1]))


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if isinstance(config, TransformerConfig)])
def test_of_a_transformer_it_is_the_gradient_at_what_enters_the_first_block(name: str) -> None:
    network = random_model(name, VOCAB)
    assert isinstance(network, TransformerLM)
    with torch.no_grad():
        x_1Td = network.embed_positions(network.embedding(torch.from_numpy(IDS[None, :-1])), 0)
    x_1Td.requires_grad_()
    loss(network, network.run_blocks(x_1Td, network.allowed())[0][:, -1]).backward()
    assert x_1Td.grad is not None
    truth = x_1Td.grad[0].norm(dim=-1).flip(0).numpy()
    np.testing.assert_allclose(flow(network, IDS, TOKENS).state, truth, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", [*CELLS.shipped_kinds, "transformer, rotary"])
def test_embeddings_and_parameters_have_the_gradient_that_training_would_give(name: str) -> None:
    """Each token gets an embedding of its own, so that the gradient of the table is that of the tokens."""
    network: Any = random_model(name, VOCAB)
    ids = np.array([3, 1, 4, 0, 5, 9, 2])  # none twice
    logits_1TV = network(torch.from_numpy(ids[None, :-1]))[0]
    F.cross_entropy(logits_1TV[:, -1], torch.from_numpy(ids[-1:])).backward()
    gradients = flow(network, ids, TOKENS)
    total = torch.stack([one.grad.norm() for one in network.parameters() if one.grad is not None]).norm()
    assert gradients.gradient == pytest.approx(float(total), rel=1e-9)
    if network.output is not None:  # where it is tied, the table is the output layer, too
        truth = network.embedding.weight.grad[torch.from_numpy(ids[:-1])].norm(dim=-1)
        np.testing.assert_allclose(gradients.embedding, truth.flip(0).numpy(), rtol=1e-9)


def test_it_is_computed_in_float64_and_leaves_the_model_as_it_was() -> None:
    network = random_model("rnn", VOCAB, torch.float32)
    network.train()
    ids = np.random.default_rng(0).integers(VOCAB, size=40)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "weight_hh" in name:
                parameter.mul_(0.01)
    gradients = flow(network, ids, ["x"] * 40)
    assert 0 < gradients.state[-1] < 1e-45, "what float32 would call nothing"
    assert network.training
    assert next(network.parameters()).dtype == torch.float32
    assert all(parameter.grad is None for parameter in network.parameters())


def test_clipping_lowers_the_whole_curve_and_changes_no_slope() -> None:
    whole = flow(random_model("rnn", VOCAB), IDS, TOKENS)
    clipped = whole.clipped(0.5 * whole.gradient)
    assert clipped.gradient == pytest.approx(0.5 * whole.gradient)
    np.testing.assert_allclose(clipped.state, 0.5 * whole.state, rtol=1e-12)
    np.testing.assert_allclose(clipped.embedding, 0.5 * whole.embedding, rtol=1e-12)
    assert whole.clipped(2 * whole.gradient).state.tolist() == whole.state.tolist(), "what is small enough stays"
    with pytest.raises(ConfigError, match="cannot clip the gradient at 0; expected a norm above 0"):
        whole.clipped(0)


def test_an_rnn_vanishes_a_large_u_explodes_and_a_transformer_does_neither() -> None:
    usual = compare_flow(length=40, size=8000, texts=2)
    assert list(usual) == list(model_kinds())
    far = {name: one.state[39] / one.state[0] for name, one in usual.items()}
    assert far["rnn"] < 1e-6 < far["lstm"]
    assert far["rnn"] < far["gru"] < far["lstm"] < far["transformer"]
    assert compare_flow(["rnn"], length=40, size=8000, texts=2, gain=6.0)["rnn"].state[39] > 100


@pytest.mark.parametrize("kind", model_kinds())
def test_models_to_compare_are_about_as_large(kind: Any) -> None:
    assert sum(one.numel() for one in fresh(kind, 40_000, 32, 100).parameters()) == pytest.approx(40_000, rel=0.1)


def test_the_mean_is_over_texts_that_do_not_touch_each_other() -> None:
    network = fresh("gru", 2000, VOCAB, 6, seed=1).double()
    token_BT = torch.randint(VOCAB, (3, 7), generator=torch.Generator().manual_seed(1))
    alone = [flow(network, row.numpy(), [""] * 7) for row in token_BT]
    mean = compare_flow(["gru"], length=6, size=2000, vocab=VOCAB, texts=3, seed=1)["gru"]
    np.testing.assert_allclose(mean.state, np.mean([one.state for one in alone], axis=0), rtol=1e-9)
    assert mean.gradient == pytest.approx(np.mean([one.gradient for one in alone]), rel=1e-9)


def test_a_run_has_it_too_and_it_can_be_drawn(char_run: Path, transformer_run: Path) -> None:
    for run in (char_run, transformer_run):
        model = load(run)
        gradients = model.flow("the list")
        assert gradients.tokens == (*reversed("the lis"), "\n")
        assert gradients.figure().plot.layout.yaxis.type == "log"
        np.testing.assert_allclose(gradients.figure().plot.data[0].y, gradients.state)
        assert len(gradients.figure().table.rows) == 2 * len(gradients.tokens)
        assert "norm over all parameters" in gradients.text()
        assert "clipped at 0.1" in gradients.clipped(0.1).plot().layout.title.text
    assert flows_figure({"a": gradients}).plot.data[0].y[0] == 1.0


def test_what_cannot_be_followed_is_refused(char_run: Path) -> None:
    with pytest.raises(DataError, match="the text has 1 token and no context to predict it from; give a longer text"):
        flow(random_model("rnn", VOCAB), IDS[:1], TOKENS[:1])
    with pytest.raises(DataError, match="the text has 4,200 tokens; the gradient view takes at most 4,096"):
        flow(random_model("rnn", VOCAB), np.tile(IDS, 600), TOKENS * 600)
    with pytest.raises(DataError, match="the text is empty"):
        load(char_run).flow("")
