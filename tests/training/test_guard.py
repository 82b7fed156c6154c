"""The guard between gradients and weights, in its asynchronous form. Here on a CPU, whose fused
optimisers read the same two numbers; tests/test_gpu.py has it on a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from firth.errors import Diverged
from firth.text.batches.windows import Windows
from firth.training import guard as module
from firth.training.feed import Feed
from firth.training.guard import UpdateGuard


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> UpdateGuard:
    """A guard that takes its device for a GPU."""

    def copied(step: int, loss: Tensor, norm: Tensor) -> Any:
        arrived = SimpleNamespace(synchronize=lambda: None)
        return module._Pending(step, torch.stack((loss, norm)), arrived)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_copy_to_host", copied)
    guard = UpdateGuard(torch.device("cpu"))
    guard._bad = torch.zeros(())
    return guard


def optimizer_of(kind: str, model: nn.Module) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    return torch.optim.AdamW(model.parameters(), lr=0.1, fused=kind == "adamw")


def steps(
    guard: UpdateGuard, kind: str, gradients: list[float], clip: float = 0.0, seen: list[Tensor] | None = None
) -> list[Tensor]:
    """The weights after each update by a gradient of the given size."""
    model = nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    optimizer = optimizer_of(kind, model)
    seen = [] if seen is None else seen
    for number, size in enumerate(gradients):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, size)
        guard.update(optimizer, torch.tensor(size), clip, number + 1)
        seen.append(model.weight.detach().clone())
        guard.check_previous()
    return seen


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
@pytest.mark.parametrize("clip", [0.0, 0.5, 100.0])
def test_the_unseen_update_is_the_seen_one(unseen: UpdateGuard, kind: str, clip: float) -> None:
    gradients = [1.0, -3.0, 0.1, 2.0]
    for one, other in zip(
        steps(unseen, kind, gradients, clip), steps(UpdateGuard(torch.device("cpu")), kind, gradients, clip), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_an_optimiser_that_does_not_read_the_flags_is_given_clipped_gradients(unseen: UpdateGuard) -> None:
    gradients = [1.0, -3.0, 0.1, 2.0]
    given = steps(unseen, "plain", gradients, clip=0.5)
    expected = steps(UpdateGuard(torch.device("cpu")), "plain", gradients, clip=0.5)
    assert all(torch.equal(one, other) for one, other in zip(given, expected, strict=True))
    with pytest.raises(Diverged, match=r"at step 2$"):
        steps(unseen, "plain", [1.0, float("nan")])


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_from_the_first_bad_step_on_nothing_is_updated_and_it_is_named_one_step_later(
    unseen: UpdateGuard, kind: str, bad: float
) -> None:
    seen: list[Tensor] = []
    with pytest.raises(Diverged, match=r"at step 3$"):
        steps(unseen, kind, [1.0, 2.0, bad, 1.0, 1.0], seen=seen)
    assert len(seen) == 4
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], seen[1])
    assert torch.equal(seen[3], seen[1])


def test_settling_looks_at_the_last_step(unseen: UpdateGuard) -> None:
    steps(unseen, "sgd", [1.0, float("nan")])
    with pytest.raises(Diverged, match="with gradient norm nan at step 2"):
        unseen.check_all()
    unseen.check_all()  # said once


def test_a_loss_that_is_no_number_counts_even_where_the_gradient_is_one(unseen: UpdateGuard) -> None:
    model = nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = model.weight.detach().clone()
    unseen.update(optimizer_of("sgd", model), torch.tensor(float("nan")), 1.0, 1)
    assert torch.equal(model.weight, before)
    with pytest.raises(Diverged, match="the loss became nan"):
        unseen.check_all()


def feed(monkeypatch: pytest.MonkeyPatch, device: str) -> Feed:
    monkeypatch.setattr(Feed, "_moved", lambda self, ids: torch.from_numpy(ids))
    return Feed(Windows(np.arange(200, dtype=np.uint16), 4, 8, seed=3), torch.device(device))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_looking_ahead_changes_no_batch_and_no_position(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ahead = feed(monkeypatch, "cpu"), feed(monkeypatch, device)
    for count in range(1, 6):
        expected, batch = plain.next(), ahead.next()
        assert batch.arrays.keys() == {"input_BT", "target_BT"}
        assert all(torch.equal(batch.arrays[name], expected.arrays[name]) for name in batch.arrays)
        assert batch.tokens == 32
        ahead.prefetch()
        ahead.prefetch()
        assert ahead.position == count
    ahead.seek(1)
    plain.seek(1)
    assert ahead.position == 1
    assert torch.equal(ahead.next().arrays["input_BT"], plain.next().arrays["input_BT"])


def test_only_for_a_gpu_is_a_batch_fetched_early(monkeypatch: pytest.MonkeyPatch) -> None:
    for device, fetched in (("cpu", 1), ("cuda", 2)):
        one = feed(monkeypatch, device)
        one.next()
        one.prefetch()
        assert one._batches.position == fetched


def test_the_known_loss_is_of_the_step_before_and_when_settled_of_the_last(unseen: UpdateGuard) -> None:
    assert np.isnan(unseen.known_loss)
    known = []
    model = nn.Linear(2, 1)
    for number in range(4):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        unseen.update(optimizer_of("sgd", model), torch.tensor(10.0 + number), 0.0, number + 1)
        unseen.check_previous()
        known.append(unseen.known_loss)
    assert known[1:] == [10, 11, 12]
    unseen.check_all()
    assert unseen.known_loss == 13


def test_on_a_device_nothing_is_updated_from_the_explosion_on(unseen: UpdateGuard) -> None:
    seen: list[Tensor] = []
    with pytest.raises(Diverged, match=r"the loss exploded from 2 to 1e\+05 at step 3"):
        steps(unseen, "sgd", [2.0, 1999.0, 1e5, 1.0], clip=1.0, seen=seen)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[1], seen[2])
    assert torch.equal(seen[2], seen[3])


def test_a_small_first_loss_allows_losses_of_up_to_a_thousand(unseen: UpdateGuard) -> None:
    steps(unseen, "sgd", [0.001, 999.0, 0.5], clip=1.0)
    unseen.check_all()
