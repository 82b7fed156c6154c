"""A linear-chain conditional random field over the tags of a sentence (Lafferty et al. 2001; Lample et al. 2016):

    p(y | x) = exp(s(x, y)) / Z(x)        s(x, y) = start[y_1] + Σ_w e_w[y_w] + Σ_w A[y_{w−1}, y_w] + end[y_n]

e are the emissions, one score per word and tag, from any encoder. With start, A and end all zero, as they are initialised, each
word has its own softmax; training learns which tags follow each other, such as I-PER after B-PER but never after B-LOC.

Letters: B batch, W words, C tags. Row b has count_B[b] words; whatever follows them has no effect. A row without words has
probability 1. Everything is computed in log space, in float32 or wider.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CRF(nn.Module):
    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start_C = nn.Parameter(torch.zeros(tags))
        self.transition_CC = nn.Parameter(torch.zeros(tags, tags))  # [from, to]
        self.end_C = nn.Parameter(torch.zeros(tags))

    def negative_log_likelihood(self, emission_BWC: Tensor, tag_BW: Tensor, count_B: Tensor) -> Tensor:
        """−log p(y | x) per row, in nats; divide the sum by the number of words for a loss per word."""
        return self.log_partition(emission_BWC, count_B) - self.score(emission_BWC, tag_BW, count_B)

    def score(self, emission_BWC: Tensor, tag_BW: Tensor, count_B: Tensor) -> Tensor:
        """s(x, y) per row; tags after the last word may be any number."""
        real_BW = _real(emission_BWC, count_B)
        tag_BW = torch.where(real_BW, tag_BW, 0)
        emitted_BW = _wide(emission_BWC).gather(2, tag_BW.unsqueeze(-1)).squeeze(-1)
        moved_BV = self.transition_CC[tag_BW[:, :-1], tag_BW[:, 1:]]
        last_B = tag_BW.gather(1, (count_B - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
        ends_B = self.start_C[tag_BW[:, 0]] + self.end_C[last_B]
        total_B = torch.where(real_BW, emitted_BW, 0.0).sum(1) + torch.where(real_BW[:, 1:], moved_BV, 0.0).sum(1) + ends_B
        return torch.where(count_B > 0, total_B, 0.0)

    def log_partition(self, emission_BWC: Tensor, count_B: Tensor) -> Tensor:
        """log Z per row, by the forward algorithm."""
        log_Z_B = (self._forward(emission_BWC, count_B)[-1] + self.end_C).logsumexp(-1)
        return torch.where(count_B > 0, log_Z_B, 0.0)

    def marginals(self, emission_BWC: Tensor, count_B: Tensor) -> Tensor:
        """p_BWC: p(y_w = c | x), by the forward–backward algorithm; zero after the last word."""
        alpha_BWC = torch.stack(self._forward(emission_BWC, count_B), dim=1)
        beta_BWC = torch.stack(self._backward(emission_BWC, count_B), dim=1)
        return torch.where(_real(emission_BWC, count_B).unsqueeze(-1), (alpha_BWC + beta_BWC).softmax(-1), 0.0)

    def decode(self, emission_BWC: Tensor, count_B: Tensor) -> Tensor:
        """tag_BW: the most probable sequence of tags, by the Viterbi algorithm; 0 after the last word."""
        real_BW = _real(emission_BWC, count_B)
        stay_BC = torch.arange(len(self.start_C), device=emission_BWC.device).expand(len(emission_BWC), -1)
        best_BC, *rest = self._emissions(emission_BWC)
        best_BC = best_BC + self.start_C
        pointers: list[Tensor] = []
        for w, e_BC in enumerate(rest, 1):
            reached_BC, from_BC = (best_BC.unsqueeze(-1) + self.transition_CC).max(1)
            real_B1 = real_BW[:, w, None]
            best_BC = torch.where(real_B1, reached_BC + e_BC, best_BC)
            pointers.append(torch.where(real_B1, from_BC, stay_BC))  # past the end, the path stands still
        tags = [(best_BC + self.end_C).argmax(-1)]
        for from_BC in reversed(pointers):
            tags.append(from_BC.gather(1, tags[-1].unsqueeze(1)).squeeze(1))
        return torch.where(real_BW, torch.stack(tags[::-1], dim=1), 0)

    def _forward(self, emission_BWC: Tensor, count_B: Tensor) -> list[Tensor]:
        """α_w[c] = log Σ over all paths that end in y_w = c; past the end of a row, its last α."""
        real_BW = _real(emission_BWC, count_B)
        first_BC, *rest = self._emissions(emission_BWC)
        alpha = [first_BC + self.start_C]
        for w, e_BC in enumerate(rest, 1):
            next_BC = (alpha[-1].unsqueeze(-1) + self.transition_CC).logsumexp(1) + e_BC
            alpha.append(torch.where(real_BW[:, w, None], next_BC, alpha[-1]))
        return alpha

    def _backward(self, emission_BWC: Tensor, count_B: Tensor) -> list[Tensor]:
        """β_w[c] = log Σ over all paths that continue from y_w = c, without e_w."""
        real_BW = _real(emission_BWC, count_B)
        emissions = self._emissions(emission_BWC)
        beta = [self.end_C.expand_as(emissions[0])]
        for w in range(len(emissions) - 1, 0, -1):
            next_BC = (self.transition_CC + (emissions[w] + beta[-1]).unsqueeze(1)).logsumexp(2)
            beta.append(torch.where(real_BW[:, w, None], next_BC, beta[-1]))
        return beta[::-1]

    def _emissions(self, emission_BWC: Tensor) -> tuple[Tensor, ...]:
        return _wide(emission_BWC).unbind(1)


def _real(emission_BWC: Tensor, count_B: Tensor) -> Tensor:
    """True for the words that are there, B,W."""
    return torch.arange(emission_BWC.shape[1], device=emission_BWC.device) < count_B.to(emission_BWC.device).unsqueeze(1)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
