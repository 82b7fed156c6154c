"""Beam search over many texts at once, for any model with step().

    score = log p(tokens) / lp(n)        lp(n) = ((5 + n) / 6)^α      (Wu et al. 2016, eq. 14; α = 0: log p alone)

Letters: B texts, A texts still being searched, S beams per text, C candidates, N tokens generated, V vocabulary.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

BLOCK = 128  # tokens per block; the first pass compares only the best of each block


class StepwiseModel(Protocol):
    """What decoding requires of a model."""

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Hypothesis:
    tokens: tuple[int, ...]  # including the end token
    log_probability: float  # Σ log p(token | tokens before it)
    score: float
    finished: bool = True


@torch.inference_mode()
def beam(
    model: StepwiseModel,
    state: Any,
    prompt_BT: Tensor,
    *,
    size: int,
    limits: Sequence[int],
    end: int,
    penalty: float = 0.0,
    unfinished: bool = False,
) -> list[list[Hypothesis]]:
    """The `size` highest-scoring finished continuations of each text, best first, with at most limits[b] tokens.

    A hypothesis that ends with `end` is finished: it keeps its score and leaves the beam. log p only falls with length, so
    without a length penalty a text is done when no live hypothesis can beat the worst of `size` finished ones. With a penalty a
    score can still rise with length; as usual, a text is then done when no live hypothesis would beat it by ending now, because
    certainty would take many more steps. With `unfinished`, a text without a finished hypothesis returns its live ones."""
    found = [_BestHypotheses(size, limit, penalty) for limit in limits]
    logits_BTV, state = model.step(prompt_BT, state)
    logits = logits_BTV[:, -1]  # of A·S rows
    text_A = torch.arange(len(prompt_BT))
    score_AS = torch.zeros(len(prompt_BT), 1, device=logits.device)
    tokens_ASN = torch.empty(len(prompt_BT), 1, 0, dtype=torch.long, device=logits.device)
    while True:
        best_AC, parent_AC, token_AC = _candidates(logits, score_AS, 2 * size)
        _note_ended(found, text_A, tokens_ASN, best_AC, parent_AC, token_AC, end)
        score_AS, place_AS = best_AC.masked_fill(token_AC == end, -torch.inf).topk(min(size, best_AC.shape[1]))
        parent_AS = parent_AC.gather(1, place_AS)
        # With fewer continuations than beams, the rest are dead: they step with token 0, since `end` may have no embedding.
        token_AS = token_AC.gather(1, place_AS).masked_fill(score_AS == -torch.inf, 0)
        before = tokens_ASN.shape[1]
        past_ASN = tokens_ASN.gather(1, parent_AS.unsqueeze(-1).expand(-1, -1, tokens_ASN.shape[2]))
        tokens_ASN = torch.cat((past_ASN, token_AS.unsqueeze(-1)), dim=-1)
        best = score_AS[:, 0].tolist()
        on_A = [a for a, text in enumerate(text_A.tolist()) if found[text].may_improve(best[a], tokens_ASN.shape[2])]
        if unfinished:
            _note_alive(found, text_A, tokens_ASN, score_AS, set(on_A))
        if not on_A:
            return [one.sorted() for one in found]
        going = torch.tensor(on_A, device=logits.device)
        rows = (going.unsqueeze(1) * before + parent_AS[going]).flatten()
        text_A, score_AS, tokens_ASN = text_A[going.cpu()], score_AS[going], tokens_ASN[going]
        state = state.select(rows)
        logits_R1V, state = model.step(tokens_ASN[:, :, -1].reshape(-1, 1), state)
        logits = logits_R1V[:, -1]


def length_penalty(tokens: int, alpha: float) -> float:
    return float(((5 + tokens) / 6) ** alpha)


class _BestHypotheses:
    """The best finished hypotheses of one text."""

    def __init__(self, size: int, limit: int, penalty: float) -> None:
        self.size, self.limit, self.penalty = size, limit, penalty
        self._heap: list[tuple[float, int, Hypothesis]] = []  # the worst of them first
        self._number = 0

    def add(self, tokens: tuple[int, ...], log_probability: float, finished: bool = True) -> None:
        score = log_probability / length_penalty(len(tokens), self.penalty)
        self._number -= 1  # on equal scores, the earlier one stays
        entry = score, self._number, Hypothesis(tokens, log_probability, score, finished)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def may_improve(self, log_probability: float, tokens: int) -> bool:
        """True if a live hypothesis would be among the best if its next token were certainly the end."""
        if tokens >= self.limit or log_probability == -torch.inf:
            return False
        highest = log_probability / length_penalty(tokens + 1, self.penalty)
        return len(self._heap) < self.size or highest > self._heap[0][0]

    def sorted(self) -> list[Hypothesis]:
        return [hypothesis for _, _, hypothesis in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]

    def __len__(self) -> int:
        return len(self._heap)


def _candidates(logits: Tensor, score_AS: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, parent beams and tokens of the best continuations, best first."""
    A, S = score_AS.shape
    log_p_ASV = torch.log_softmax(logits.float(), -1).view(A, S, -1)
    V = log_p_ASV.shape[2]
    if most < S * (V // BLOCK):
        best_AC, place_AC = _best_by_block(log_p_ASV, score_AS, most)
    else:
        best_AC, place_AC = (score_AS.unsqueeze(-1) + log_p_ASV).flatten(1).topk(min(most, S * V))
    return best_AC, place_AC // V, place_AC % V


def _best_by_block(log_p_ASV: Tensor, score_AS: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Equal to topk over all S·V. The best `most` tokens lie in the `most` blocks with the highest maxima, and the maxima take
    one pass without sorting. A topk over everything costs more than the softmax."""
    V = log_p_ASV.shape[2]
    whole = V // BLOCK * BLOCK
    highest_ASN = log_p_ASV[..., :whole].view(*score_AS.shape, -1, BLOCK).amax(-1)
    if whole < V:
        highest_ASN = torch.cat((highest_ASN, log_p_ASV[..., whole:].amax(-1, keepdim=True)), dim=2)
    N = highest_ASN.shape[2]
    block_AC = (score_AS.unsqueeze(-1) + highest_ASN).flatten(1).topk(most).indices
    parent_AC1 = (block_AC // N).unsqueeze(-1)
    token_ACn = (block_AC % N).unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=block_AC.device)
    place_An = (parent_AC1 * V + token_ACn.clamp(max=V - 1)).flatten(1)
    log_p_ACn = log_p_ASV.flatten(1).gather(1, place_An).view_as(token_ACn)
    score_ACn = (score_AS.gather(1, block_AC // N).unsqueeze(-1) + log_p_ACn).masked_fill(token_ACn >= V, -torch.inf)
    best_AC, where_AC = score_ACn.flatten(1).topk(most)
    return best_AC, place_An.gather(1, where_AC)


def _note_ended(
    found: list[_BestHypotheses],
    text_A: Tensor,
    tokens_ASN: Tensor,
    best_AC: Tensor,
    parent_AC: Tensor,
    token_AC: Tensor,
    end: int,
) -> None:
    """Record the finished candidates; one transfer from the device for all of them."""
    a_E, c_E = ((token_AC == end) & (best_AC > -torch.inf)).nonzero(as_tuple=True)
    tokens_EN, score_E = tokens_ASN[a_E, parent_AC[a_E, c_E]].tolist(), best_AC[a_E, c_E].tolist()
    for text, tokens_N, score in zip(text_A[a_E.cpu()].tolist(), tokens_EN, score_E, strict=True):
        found[text].add((*tokens_N, end), score)


def _note_alive(found: list[_BestHypotheses], text_A: Tensor, tokens_ASN: Tensor, score_AS: Tensor, going: set[int]) -> None:
    """Record the live hypotheses of texts that reached their limit without a finished one."""
    for a, text in enumerate(text_A.tolist()):
        if a not in going and not len(found[text]):
            for tokens_N, score in zip(tokens_ASN[a].tolist(), score_AS[a].tolist(), strict=True):
                if score > -torch.inf:
                    found[text].add(tuple(tokens_N), score, finished=False)
