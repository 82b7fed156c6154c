"""Scores and biases of positions in their own operations. Letters: Q queries, K keys, D head width."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from firth.inspection.walk.recorded import Recording
from firth.layers.attention.call import Call
from firth.layers.position import Bias

_LONGEST = 40  # characters of the equation of a bias


def recorded_score(call: Call, query: str, key: str) -> Recording:
    """a(q, k) of a call after `reduced`: B,G,J,Q,K."""
    q_BHJQD, k_BHJKD = call.q_BHQD.unsqueeze(2), call.k_BGKC.unsqueeze(2)
    names = [*_own(call.score), (query, q_BHJQD), (key, k_BHJKD)]
    return Recording(lambda: call.score.explained(q_BHJQD, k_BHJKD), names=names)


def recorded_bias(position: Bias, distance_BHQK: Tensor) -> Recording:
    return Recording(lambda: position.bias_BHQK(distance_BHQK), names=[*_own(position), ("k − q", distance_BHQK)])


def bias_equation(bias: Recording) -> str:
    text = bias.equation(bias.result)
    return text if len(text) <= _LONGEST and "…" not in text else "bias(k − q)"


def _own(idea: Any) -> list[tuple[str, Tensor]]:
    """Parameters by their names without axes: w of w_HA."""
    return [(name.rsplit("_", 1)[0], value) for name, value in vars(idea).items() if isinstance(value, Tensor)]
