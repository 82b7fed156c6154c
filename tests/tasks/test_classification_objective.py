from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firth.layers.objective import SquaredError
from firth.models import AverageConfig, classifier
from firth.tasks.classification import balanced, classification


def test_the_loss_is_the_mean_negative_log_likelihood_of_the_labels() -> None:
    model = classifier(AverageConfig(kind="average", width=4), 7, 3).double()
    token_BT, length_B = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1])
    label_B = torch.tensor([2, 0])
    loss, state = classification(model, token_BT, length_B, label_B)
    p_BC = torch.softmax(model(token_BT, length_B), -1)
    by_hand = -(math.log(p_BC[0, 2].item()) + math.log(p_BC[1, 0].item())) / 2
    assert abs(loss.item() - by_hand) < 1e-6  # the softmax is in float32
    assert state is None


def test_weighted_it_is_the_weighted_mean_by_hand_and_torchs() -> None:
    model = classifier(AverageConfig(kind="average", width=4), 7, 3).double()
    token_BT, length_B = torch.tensor([[1, 2, 3], [4, 0, 0], [5, 6, 0]]), torch.tensor([3, 1, 2])
    label_B, weight_C = torch.tensor([2, 0, 2]), torch.tensor([0.5, 1.0, 3.0])
    loss, _ = classification(model, token_BT, length_B, label_B, weight_C=weight_C)
    logits_BC = model(token_BT, length_B)
    nats = [-math.log(torch.softmax(logits_BC[b], -1)[c].item()) for b, c in enumerate(label_B.tolist())]
    by_hand = (3.0 * nats[0] + 0.5 * nats[1] + 3.0 * nats[2]) / 6.5
    assert abs(loss.item() - by_hand) < 1e-6
    assert loss.item() == torch.nn.functional.cross_entropy(logits_BC, label_B, weight_C.double()).item()


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    label_N = np.array([0, 0, 0, 1, 2, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=label_N)
    assert np.allclose(balanced(label_N, 3), expected)
    assert np.allclose(balanced(label_N, 3)[label_N].sum(), len(label_N))  # all together weigh what they did


def test_a_class_without_a_text_does_not_spoil_the_others() -> None:
    assert balanced(np.array([0, 0, 2]), 3).tolist() == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("weights", [None, (0.5, 1.0, 3.0)])
def test_the_squared_error_is_a_loop_over_one_hot_labels_and_torchs(weights: tuple[float, ...] | None) -> None:
    model = classifier(AverageConfig(kind="average", width=4), 7, 3).double()
    token_BT, length_B = torch.tensor([[1, 2, 3], [4, 0, 0], [5, 6, 0]]), torch.tensor([3, 1, 2])
    label_B = torch.tensor([2, 0, 2])
    weight_C = None if weights is None else torch.tensor(weights)
    loss, state = classification(model, token_BT, length_B, label_B, weight_C=weight_C, loss="squared-error")
    assert state is None
    p_BC = torch.softmax(model(token_BT, length_B), -1).tolist()
    error_B = [sum((p - (c == label)) ** 2 for c, p in enumerate(p_C)) for p_C, label in zip(p_BC, label_B.tolist(), strict=True)]
    weight_B = [1.0 if weights is None else weights[label] for label in label_B.tolist()]
    by_hand = sum(weight * error for weight, error in zip(weight_B, error_B, strict=True)) / sum(weight_B)
    assert abs(loss.item() - by_hand) < 1e-6
    if weights is None:  # torch takes the mean over the classes, too
        y_BC = F.one_hot(label_B, 3).double()
        assert abs(loss.item() - 3 * F.mse_loss(torch.tensor(p_BC).double(), y_BC).item()) < 1e-6


def test_the_squared_error_is_two_at_worst_and_gives_no_gradient_there() -> None:
    logits_BC = torch.tensor([[20.0, 0.0]], requires_grad=True)
    assert SquaredError.mean(logits_BC, torch.tensor([0])).item() < 1e-12
    worst = SquaredError.mean(logits_BC, torch.tensor([1]))
    worst.backward()
    assert abs(worst.item() - 2) < 1e-6
    assert logits_BC.grad is not None
    assert logits_BC.grad.abs().max() < 1e-7  # of the cross-entropy it would be 1
