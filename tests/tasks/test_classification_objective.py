from __future__ import annotations

import math

import numpy as np
import torch

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
    assert loss.item() == torch.nn.functional.cross_entropy(logits_BC.float(), label_B, weight_C).item()


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    label_N = np.array([0, 0, 0, 1, 2, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=label_N)
    assert np.allclose(balanced(label_N, 3), expected)
    assert np.allclose(balanced(label_N, 3)[label_N].sum(), len(label_N))  # all together weigh what they did


def test_a_class_without_a_text_does_not_spoil_the_others() -> None:
    assert balanced(np.array([0, 0, 2]), 3).tolist() == [0.5, 1.0, 1.0]
