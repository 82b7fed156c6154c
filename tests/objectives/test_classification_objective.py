from __future__ import annotations

import math

import torch

from firth.models import AverageConfig, classifier
from firth.objectives.classification import classification


def test_the_loss_is_the_mean_negative_log_likelihood_of_the_labels() -> None:
    model = classifier(AverageConfig(kind="average", width=4), 7, 3).double()
    token_BT, length_B = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1])
    label_B = torch.tensor([2, 0])
    loss, state = classification(model, token_BT, length_B, label_B)
    p_BC = torch.softmax(model(token_BT, length_B), -1)
    by_hand = -(math.log(p_BC[0, 2].item()) + math.log(p_BC[1, 0].item())) / 2
    assert abs(loss.item() - by_hand) < 1e-6  # the softmax is in float32
    assert state is None
