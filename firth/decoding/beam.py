"""The most probable continuations. Letters: S beams alive, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Steps(Protocol):
    """All that a beam asks of a model."""

    def start(self, batch: int) -> Any: ...
    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Hypothesis:
    tokens: tuple[int, ...]
    log_probability: float  # Σ log p(token | what came before)


@torch.inference_mode()
def beam(
    model: Steps,
    prompt_T: Tensor,
    *,
    size: int,
    steps: int,
    finished: Callable[[tuple[int, ...]], bool],
) -> list[Hypothesis]:
    """The `size` most probable continuations that `finished` accepts, at most `steps` tokens each, best first.

    A finished hypothesis keeps its score and leaves the beam. log p only falls with length, so the search ends when no
    living hypothesis is above the worst of `size` finished ones."""
    state = model.start(1)
    logits_1TV, state = model.step(prompt_T.unsqueeze(0), state)
    logits_SV = logits_1TV[:, -1]
    alive = [Hypothesis((), 0.0)]
    done: list[Hypothesis] = []
    for n in range(steps):
        score_S = torch.tensor([hypothesis.log_probability for hypothesis in alive], device=logits_SV.device)
        score_SV = score_S.unsqueeze(1) + torch.log_softmax(logits_SV.float(), -1)
        best, where = score_SV.flatten().topk(min(2 * size, score_SV.numel()))
        parents: list[int] = []
        next_alive: list[Hypothesis] = []
        for score, index in zip(best.tolist(), where.tolist(), strict=True):
            parent, token = divmod(index, score_SV.shape[1])
            hypothesis = Hypothesis((*alive[parent].tokens, token), score)
            if finished(hypothesis.tokens):
                done.append(hypothesis)
            elif len(next_alive) < size:
                next_alive.append(hypothesis)
                parents.append(parent)
        done = sorted(done, key=lambda h: h.log_probability, reverse=True)[:size]
        beaten = len(done) == size and bool(next_alive) and next_alive[0].log_probability <= done[-1].log_probability
        if not next_alive or beaten or n + 1 == steps:
            break
        alive = next_alive
        state = state.select(torch.tensor(parents, device=logits_SV.device))
        token_S1 = torch.tensor([[h.tokens[-1]] for h in alive], device=logits_SV.device)
        logits_S1V, state = model.step(token_S1, state)
        logits_SV = logits_S1V[:, -1]
    return done
