"""The optimisers are the published equations, in float64 by hand, or torch's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from tiny_runs import tiny, untrained
from tolerance import assert_equal
from torch import Tensor, nn

from firth.layers.position.learned import LearnedConfig
from firth.models import TransformerConfig, language_model
from firth.models.roles import Role
from firth.tasks.next_token import next_token
from firth.text.data.running_text import prepare
from firth.training.config import TrainingConfig
from firth.training.loop import Training, fit
from firth.training.optim import OPTIMIZERS, groups_of, optimizer_for

STEPS = 7


class Both(nn.Module):
    """A matrix and a vector."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(3, 4, generator=generator, dtype=torch.float64))
        self.vector = nn.Parameter(torch.randn(4, generator=generator, dtype=torch.float64))


def gradients(parameter: Tensor, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        yield torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def trained(**settings: Any) -> Both:
    model = Both()
    optimizer = optimizer_for(model, TrainingConfig(**settings))
    for matrix, vector in zip(gradients(model.matrix, 1), gradients(model.vector, 2), strict=True):
        model.matrix.grad, model.vector.grad = matrix, vector
        optimizer.step()
    return model


def adamw(weight: Tensor, seed: int, decay: float, rate: float, beta1: float, beta2: float) -> Tensor:
    """Loshchilov & Hutter 2019, algorithm 2, with the schedule multiplier inside `rate`."""
    w, m, v = weight.detach().clone(), torch.zeros_like(weight), torch.zeros_like(weight)
    for t, g in enumerate(gradients(weight, seed), start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        w = w - rate * (m_hat / (v_hat.sqrt() + 1e-8) + decay * w)
    return w.detach()


def sgd(weight: Tensor, seed: int, decay: float, rate: float, momentum: float) -> Tensor:
    """Heavy ball: b ← μ b + g + λ w, w ← w − η b."""
    w, b = weight.detach().clone(), torch.zeros_like(weight)
    for g in gradients(weight, seed):
        b = momentum * b + g + decay * w
        w = w - rate * b
    return w.detach()


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_adamw_is_the_published_update_and_decays_matrices_only(decay: float) -> None:
    start = Both()
    model = trained(optimizer="adamw", rate=0.02, betas=(0.8, 0.95), weight_decay=decay)
    assert_equal(model.matrix.detach(), adamw(start.matrix, 1, decay, 0.02, 0.8, 0.95))
    assert_equal(model.vector.detach(), adamw(start.vector, 2, 0.0, 0.02, 0.8, 0.95))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_sgd_is_the_published_update_and_decays_matrices_only(momentum: float, decay: float) -> None:
    start = Both()
    model = trained(optimizer="sgd", rate=0.02, momentum=momentum, weight_decay=decay)
    assert_equal(model.matrix.detach(), sgd(start.matrix, 1, decay, 0.02, momentum))
    assert_equal(model.vector.detach(), sgd(start.vector, 2, 0.0, 0.02, momentum))


HIDDEN = {
    "lstm": {"recurrent.layers.0.weight_ih_l0", "recurrent.layers.0.weight_hh_l0"},
    "transformer": {
        "blocks.0.attention.qkv.weight",
        "blocks.0.attention.out.weight",
        "blocks.0.feedforward.up.weight",
        "blocks.0.feedforward.down.weight",
    },
}


def stepped(model: nn.Module, optimizers: list[torch.optim.Optimizer], steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
@pytest.mark.parametrize("adjust", ["match_rms_adamw", "original"])
def test_muon_is_torch_s_for_the_hidden_matrices_and_adamw_for_the_rest(kind: str, adjust: Any) -> None:
    ours, theirs = _training(kind).model, _training(kind).model
    given = {"muon_momentum": 0.9, "muon_nesterov": False, "muon_iterations": 3, "muon_adjust": adjust}
    config = TrainingConfig(optimizer="muon", rate=0.02, betas=(0.8, 0.9), weight_decay=0.1, **given)
    named = dict(theirs.named_parameters())
    rest = [weight for name, weight in named.items() if name not in HIDDEN[kind]]
    adamw = {"lr": 0.02, "betas": (0.8, 0.9), "fused": True}
    oracle = [
        torch.optim.Muon(
            [named[name] for name in HIDDEN[kind]],
            **{"lr": 0.02, "momentum": 0.9, "nesterov": False, "ns_steps": 3, "weight_decay": 0.1, "adjust_lr_fn": adjust},
        ),
        torch.optim.AdamW([weight for weight in rest if weight.ndim > 1], weight_decay=0.1, **adamw),
        torch.optim.AdamW([weight for weight in rest if weight.ndim == 1], weight_decay=0.0, **adamw),
    ]
    stepped(ours, [optimizer_for(ours, config)], range(3))
    stepped(theirs, oracle, range(3))
    for name, weight in ours.named_parameters():
        assert torch.equal(weight, named[name]), name


def test_a_muon_continues_from_the_state_of_another() -> None:
    config = TrainingConfig(optimizer="muon")
    whole, parts = _training("gru").model, _training("gru").model
    stepped(whole, [optimizer_for(whole, config)], range(4))
    first, second = optimizer_for(parts, config), optimizer_for(parts, config)
    stepped(parts, [first], range(2))
    second.load_state_dict(first.state_dict())
    stepped(parts, [second], range(2, 4))
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), parts.parameters(), strict=True))


def test_the_matrices_of_muon_have_a_rate_of_their_own() -> None:
    config = {"optimizer": "muon", "rate": 0.1, "muon_rate_ratio": 5.0, "schedule": "constant"}
    training = _training("gru", **config)
    next(fit(training, next_token, tiny("gru", **config).training))
    assert {group["role"]: group["lr"] for group in training.optimizer.param_groups} == {"hidden": 0.5, None: 0.1}


def test_an_untied_output_layer_and_position_tables_are_not_hidden() -> None:
    config = TransformerConfig(kind="transformer", width=8, depth=1, context=4, tied=False, position=LearnedConfig())
    apart = get_args(Role)
    groups = groups_of(language_model(config, 11), 0.1, apart)
    shapes = {(group["role"], tuple(weight.shape)) for group in groups for weight in group["params"] if weight.ndim > 1}
    assert {role for role, shape in shapes if shape == (11, 8)} == {"embedding", "output"}
    assert {role for role, shape in shapes if shape == (4, 8)} == {"other"}


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.kinds)
def test_every_weight_of_a_model_is_updated_once(kind: str, optimizer: str) -> None:
    model = _training(kind).model
    config = TrainingConfig(optimizer=optimizer, schedule="constant", weight_decay=0.1, evaluate_every=1)
    groups = optimizer_for(model, config).param_groups
    ids = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(ids) == sorted(id(parameter) for parameter in model.parameters())
    for group in groups:
        assert {parameter.ndim >= 2 for parameter in group["params"]} == {group["weight_decay"] > 0}


def _training(kind: str = "gru", **settings: Any) -> Training:
    recipe = tiny(kind, **settings).resolved()
    return untrained(recipe, prepare(recipe.data, recipe.tokenizer))


def _first_gradient(**settings: Any) -> tuple[float, float, Tensor]:
    """The norm that was reported, the norm that the optimiser was given, and that gradient."""
    training = _training(**settings)
    before = {name: weight.detach().clone() for name, weight in training.model.named_parameters()}
    step = next(fit(training, next_token, tiny(**settings).training))
    moved = torch.cat([(before[name] - weight.detach()).flatten() for name, weight in training.model.named_parameters()])
    gradient = moved.double() / step.rate  # plain SGD moves by rate · gradient
    return step.gradient_norm, float(gradient.norm()), gradient


def test_the_gradient_is_clipped_to_the_norm_asked_for_and_reported_before_that() -> None:
    settings = {"optimizer": "sgd", "rate": 1.0, "schedule": "constant"}
    reported, unclipped, gradient = _first_gradient(clip=0.0, **settings)
    assert reported == pytest.approx(unclipped, rel=1e-5)  # float32 weights of size 1 move by float32 roundings of 6e-8
    small = unclipped / 3
    reported_again, clipped, shorter = _first_gradient(clip=small, **settings)
    assert reported_again == reported
    assert clipped == pytest.approx(small, rel=1e-4)
    assert torch.nn.functional.cosine_similarity(gradient, shorter, dim=0) == pytest.approx(1.0, abs=1e-6)


def test_a_gradient_shorter_than_the_limit_is_left_as_it_is() -> None:
    settings = {"optimizer": "sgd", "rate": 1.0, "schedule": "constant"}
    assert torch.equal(_first_gradient(clip=0.0, **settings)[2], _first_gradient(clip=1e6, **settings)[2])


def test_each_update_uses_the_rate_of_its_step() -> None:
    settings: dict[str, Any] = {"steps": 5, "warmup": 2, "schedule": "linear", "rate": 0.1, "final_rate_ratio": 0.5}
    rates = [step.rate for step in fit(_training(**settings), next_token, tiny(**settings).training)]
    assert rates == pytest.approx([0.05, 0.1, 0.1, 0.075, 0.05])
