"""Beam search over many texts at once, for any model with step().

    score = log p(tokens) / lp(n)        lp(n) = ((5 + n) / 6)^α      (Wu et al. 2016, eq. 14; α = 0: log p alone)

The rules "transformers" are those of the library of that name (its generate(num_beams=…)), for models that were published with
settings for it: lp(n) = n^α; only the best `size` candidates of a step may end; at the limit the best `size` end as they are;
and a text is done when log p / lp(n) of the best live hypothesis of n tokens is below the worst of `size` finished ones.

Diverse beam search (Vijayakumar et al. 2016) divides the beam into groups, which choose their next tokens one after the other:

    a group keeps the tokens with the highest   log p − λ · (number of earlier groups' beams that chose the token in this step)

The first group is thus an ordinary beam. The diversity term only decides what a group keeps; it does not enter the score.

Letters: B texts, A texts still being searched, S beams per text, G groups, C candidates, N tokens generated, P prompt length,
V vocabulary, R = A·S rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import BeamRules, DecodingConfig
from firth.decoding.loop import StepwiseModel
from firth.decoding.sampling.choice import penalised
from firth.decoding.sampling.draw import forced
from firth.decoding.search.considered import Note, considered
from firth.layers.kernels.cpu import logsumexp

BLOCK = 128  # tokens per block; the first pass compares only the best of each block
Ended = Callable[[int, tuple[int, ...]], bool]  # (number of the text, tokens generated) → whether the text ends there


@dataclass(frozen=True)
class Hypothesis:
    tokens: tuple[int, ...]  # including the end token
    log_probability: float  # Σ log p(token | tokens before it), of the model
    score: float
    finished: bool = True


@torch.inference_mode()
def beam(
    model: StepwiseModel,
    state: Any,
    prompt_BT: Tensor,
    config: DecodingConfig,
    *,
    limits: Sequence[int],
    end: int,
    unfinished: bool = False,
    limit_ends: bool = False,
    seen_BP: Tensor | None = None,
    ended: Ended | None = None,
    first: int | None = None,
    banned: Sequence[int] = (),
    note: Note | None = None,
) -> list[list[Hypothesis]]:
    """The config.beam highest-scoring finished continuations of each text, best first, with at most limits[b] tokens.

    A hypothesis that ends with `end`, or for which `ended` is true, is finished: it keeps its score and leaves the beam. log p
    only falls with length, so without a length penalty a text is done when no live hypothesis can beat the worst of config.beam
    finished ones. With a penalty a score can still rise with length; as usual, a text is then done when no live hypothesis would
    beat it by ending now, because certainty would take many more steps. With `unfinished`, a text without a finished hypothesis
    returns its live ones. With `limit_ends`, a hypothesis of limits[b] tokens competes with the finished ones.

    The groups of a beam each search as described above; texts found by several of them are returned once. Filters that penalise
    repetition look at the tokens in seen_BP and the generated ones. With `first`, every text begins with that token, at no cost;
    `banned` tokens are never generated. With the rules "transformers" and early_stopping, a text is done with config.beam
    finished hypotheses. `note` is called with the candidates of every step."""
    groups = config.beam_groups
    best = [[_BestHypotheses(config, limit) for _ in range(groups)] for limit in limits]
    logits_BTV, state = model.step(prompt_BT, state)
    live = _Live.first(len(prompt_BT), logits_BTV.device)
    logits = logits_BTV[:, -1] if first is None else forced(logits_BTV[:, -1], first)  # of R rows
    while True:
        own = None
        if config.reads_text:
            own, logits = logits, penalised(logits.float(), config, live.past_RN(seen_BP))
        parts, used_AV = [], None
        for group in range(groups):
            kept = _grow(live, logits, own, best, group, groups, used_AV, end, ended, banned, note)
            if config.diversity and group + 1 < groups:
                used_AV = kept.added_to(used_AV, config.diversity, logits.shape[-1])
            parts.append(kept)
        before, live = live.score_AS.shape[1], _Live.joined(parts)
        on_A = live.going(best)
        live.note_cut_off(best, set(on_A), unfinished, limit_ends)
        if not on_A:
            return [_merged(one) for one in best]
        going = torch.tensor(on_A, device=logits.device)
        rows = (going.unsqueeze(1) * before + live.parent_AS[going]).flatten()
        live = live.of(going)
        state = state.select(rows)
        logits_R1V, state = model.step(live.tokens_ASN[:, :, -1].reshape(-1, 1), state)
        logits = logits_R1V[:, -1]


@dataclass(frozen=True, eq=False)
class _Live:
    """The live hypotheses of the texts that are still being searched, group after group; a dead one has the score −∞."""

    text_A: Tensor
    tokens_ASN: Tensor
    score_AS: Tensor  # Σ log p of the search
    log_p_AS: Tensor  # Σ log p of the model; the same unless there is a repetition penalty
    parent_AS: Tensor  # the beam that each one continues
    best_AG: Tensor  # the highest score of each group

    @staticmethod
    def first(texts: int, device: torch.device) -> _Live:
        none_A1 = torch.zeros(texts, 1, device=device)
        tokens_A1N = torch.empty(texts, 1, 0, dtype=torch.long, device=device)
        return _Live(torch.arange(texts), tokens_A1N, none_A1, none_A1, torch.zeros_like(none_A1, dtype=torch.long), none_A1)

    @staticmethod
    def joined(groups: Sequence[_Live]) -> _Live:
        if len(groups) == 1:
            return groups[0]
        names = ("tokens_ASN", "score_AS", "log_p_AS", "parent_AS", "best_AG")
        return _Live(groups[0].text_A, *(torch.cat([getattr(group, name) for group in groups], dim=1) for name in names))

    def of(self, going: Tensor) -> _Live:
        parts = (self.tokens_ASN, self.score_AS, self.log_p_AS, self.parent_AS, self.best_AG)
        return _Live(self.text_A[going.cpu()], *(part[going] for part in parts))

    def columns(self, group: int, groups: int) -> slice:
        """The beams of a group; before the first token there is one, for all of them."""
        if not self.tokens_ASN.shape[2]:
            return slice(0, 1)
        width = self.score_AS.shape[1] // groups
        return slice(group * width, (group + 1) * width)

    def past_RN(self, seen_BP: Tensor | None) -> Tensor:
        past_RN = self.tokens_ASN.flatten(0, 1)
        if seen_BP is None:
            return past_RN
        seen_RP = seen_BP[self.text_A.to(seen_BP.device)].repeat_interleave(self.score_AS.shape[1], dim=0)
        return torch.cat((seen_RP, past_RN), dim=1)

    def added_to(self, used_AV: Tensor | None, diversity: float, vocab: int) -> Tensor:
        """λ times how often each token was chosen in this step, by this group and those before it."""
        if used_AV is None:
            used_AV = torch.zeros(len(self.text_A), vocab, device=self.score_AS.device)
        return used_AV.scatter_add(1, self.tokens_ASN[:, :, -1], diversity * (self.score_AS > -torch.inf).float())

    def going(self, hypotheses: list[list[_BestHypotheses]]) -> list[int]:
        """Close the groups that are done, and return the texts with a group that is not."""
        for text, best_G in zip(self.text_A.tolist(), self.best_AG.tolist(), strict=True):
            for group, best in zip(hypotheses[text], best_G, strict=True):
                group.open = group.open and group.may_improve(best, self.tokens_ASN.shape[2])
        return [a for a, text in enumerate(self.text_A.tolist()) if any(group.open for group in hypotheses[text])]

    def note_cut_off(self, best: list[list[_BestHypotheses]], going: set[int], unfinished: bool, limit_ends: bool) -> None:
        """Record the live hypotheses of texts that reached their limit: always, or those of a text without a finished one."""
        for a, text in enumerate(self.text_A.tolist()):
            wanted = limit_ends and self.tokens_ASN.shape[2] >= best[text][0].limit
            if a in going or not (wanted or (unfinished and not any(map(len, best[text])))):
                continue
            beams = zip(self.tokens_ASN[a].tolist(), self.score_AS[a].tolist(), self.log_p_AS[a].tolist(), strict=True)
            for n, (tokens_N, score, log_p) in enumerate(beams):
                if score > -torch.inf:
                    group = n * len(best[text]) // self.score_AS.shape[1]
                    best[text][group].add(tuple(tokens_N), score, log_p, finished=False)


def _grow(
    live: _Live,
    logits: Tensor,
    own: Tensor | None,
    best: list[list[_BestHypotheses]],
    group: int,
    groups: int,
    used_AV: Tensor | None,
    end: int,
    ended: Ended | None,
    banned: Sequence[int],
    note: Note | None,
) -> _Live:
    """One more token for the beams of a group. `own` are the logits of the model, where `logits` are penalised."""
    A, V, columns, width = len(live.text_A), logits.shape[-1], live.columns(group, groups), best[0][0].size
    of_group = logits if groups == 1 else logits.view(A, -1, V)[:, columns].reshape(-1, V)
    score_AS, tokens_ASN = live.score_AS[:, columns], live.tokens_ASN[:, columns]
    ranked_AC, parent_AC, token_AC = _candidates(of_group, score_AS, 2 * width, used_AV, banned)
    if groups > 1:
        closed_A = torch.tensor([not best[text][group].open for text in live.text_A.tolist()], device=logits.device)
        ranked_AC = ranked_AC.masked_fill(closed_A.unsqueeze(1), -torch.inf)
    best_AC = ranked_AC if used_AV is None else ranked_AC + used_AV.gather(1, token_AC)
    log_p_AC = best_AC
    if own is not None:
        own_ASV = torch.log_softmax(own.float(), -1).view(A, -1, V)[:, columns]
        log_p_AC = live.log_p_AS[:, columns].gather(1, parent_AC) + own_ASV.flatten(1).gather(1, parent_AC * V + token_AC)
    ended_AC = token_AC == end
    if ended is not None:
        ended_AC |= _ended(ended, live.text_A, tokens_ASN, parent_AC, token_AC, best_AC)
    noted_AC, cut_AC = ended_AC, torch.zeros_like(ended_AC)
    if best[0][group].rules == "transformers":
        last_A = torch.tensor([best[text][group].limit <= tokens_ASN.shape[2] + 1 for text in live.text_A.tolist()])
        cut_AC = last_A.to(logits.device).unsqueeze(1) & ~ended_AC
        ended_AC = ended_AC | cut_AC
        noted_AC = ended_AC & (torch.arange(ended_AC.shape[1], device=logits.device) < width)
    _note_ended(best, group, live.text_A, tokens_ASN, best_AC, log_p_AC, parent_AC, token_AC, noted_AC, cut_AC)
    ranked_AS, place_AS = ranked_AC.masked_fill(ended_AC, -torch.inf).topk(min(width, best_AC.shape[1]))
    dead_AS = ranked_AS == -torch.inf
    if note is not None:
        told = (parent_AC + columns.start, token_AC, log_p_AC, best_AC, noted_AC, place_AS, dead_AS)
        note(group, list(considered(live.text_A, *told, first=group * width)))
    score_AS = best_AC.gather(1, place_AS).masked_fill(dead_AS, -torch.inf)
    parent_AS = parent_AC.gather(1, place_AS)
    # With fewer continuations than beams, the rest are dead: they step with token 0, since `end` may have no embedding.
    token_AS = token_AC.gather(1, place_AS).masked_fill(dead_AS, 0)
    past_ASN = tokens_ASN.gather(1, parent_AS.unsqueeze(-1).expand(-1, -1, tokens_ASN.shape[2]))
    return _Live(
        live.text_A,
        torch.cat((past_ASN, token_AS.unsqueeze(-1)), dim=-1),
        score_AS,
        score_AS if own is None else log_p_AC.gather(1, place_AS),
        parent_AS + (columns.start if groups > 1 else 0),
        score_AS.amax(1, keepdim=True),
    )


def length_penalty(tokens: int, alpha: float, rules: BeamRules = "wu") -> float:
    return float((tokens if rules == "transformers" else (5 + tokens) / 6) ** alpha)


class _BestHypotheses:
    """The best finished hypotheses of one group of a text."""

    def __init__(self, config: DecodingConfig, limit: int) -> None:
        self.size, self.limit = config.beam // config.beam_groups, limit
        self.penalty, self.rules, self.early = config.penalty, config.beam_rules, config.early_stopping
        self.open = True  # false: done, while other groups of the text are not
        self._heap: list[tuple[float, int, Hypothesis]] = []  # the worst of them first
        self._number = 0

    def add(self, tokens: tuple[int, ...], searched: float, log_probability: float, finished: bool = True) -> None:
        score = searched / length_penalty(len(tokens), self.penalty, self.rules)
        self._number -= 1  # on equal scores, the earlier one stays
        entry = score, self._number, Hypothesis(tokens, log_probability, score, finished)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def may_improve(self, searched: float, tokens: int) -> bool:
        """True if a live hypothesis would be among the best if its next token were certainly the end; with the rules
        "transformers", if it were without that token."""
        if tokens >= self.limit or searched == -torch.inf:
            return False
        if len(self._heap) < self.size:
            return True
        counted = tokens if self.rules == "transformers" else tokens + 1
        return not self.early and searched / length_penalty(counted, self.penalty, self.rules) > self._heap[0][0]

    def sorted(self) -> list[Hypothesis]:
        return [hypothesis for _, _, hypothesis in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]

    def __len__(self) -> int:
        return len(self._heap)


def _merged(groups: Sequence[_BestHypotheses]) -> list[Hypothesis]:
    """The hypotheses of all groups, best first, each of them once."""
    by_tokens: dict[tuple[int, ...], Hypothesis] = {}
    for group in groups:
        for hypothesis in group.sorted():
            by_tokens.setdefault(hypothesis.tokens, hypothesis)
    return sorted(by_tokens.values(), key=lambda hypothesis: -hypothesis.score)


def _candidates(
    logits: Tensor, score_AS: Tensor, most: int, used_AV: Tensor | None = None, banned: Sequence[int] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, parent beams and tokens of the best continuations, best first; used_AV is subtracted from the scores."""
    A, S = score_AS.shape
    if used_AV is None and most < S * (logits.shape[-1] // BLOCK) and logsumexp.why_not(logits) is None:
        # Not every probability is needed: log p = logit − log Σ e^logit, of the best ones.
        score_AS = score_AS - logsumexp.logsumexp(logits).view(A, S)
        best_AC, place_AC = _best_by_block(logits.view(A, S, -1), score_AS, most, banned)
        return best_AC, place_AC // logits.shape[-1], place_AC % logits.shape[-1]
    log_p_RV = torch.log_softmax(logits.float(), -1)
    if banned:
        log_p_RV[:, list(banned)] = -torch.inf  # in place: a copy would take as long as the softmax
    log_p_ASV = log_p_RV.view(A, S, -1)
    if used_AV is not None:
        log_p_ASV = log_p_ASV - used_AV.unsqueeze(1)
    V = log_p_ASV.shape[2]
    if most < S * (V // BLOCK):
        best_AC, place_AC = _best_by_block(log_p_ASV, score_AS, most)
    else:
        best_AC, place_AC = (score_AS.unsqueeze(-1) + log_p_ASV).flatten(1).topk(min(most, S * V))
    return best_AC, place_AC // V, place_AC % V


def _best_by_block(log_p_ASV: Tensor, score_AS: Tensor, most: int, banned: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Equal to topk over all S·V but the `banned` ones. The best `most` tokens lie in the `most` blocks with the highest maxima,
    and the maxima take one pass without sorting. A topk over everything costs more than the softmax."""
    V = log_p_ASV.shape[2]
    whole = V // BLOCK * BLOCK
    highest_ASN = log_p_ASV[..., :whole].view(*score_AS.shape, -1, BLOCK).amax(-1)
    if whole < V:
        highest_ASN = torch.cat((highest_ASN, log_p_ASV[..., whole:].amax(-1, keepdim=True)), dim=2)
    for block in {token // BLOCK for token in banned}:
        part_ASn = log_p_ASV[..., block * BLOCK : (block + 1) * BLOCK].clone()
        part_ASn[..., [token % BLOCK for token in banned if token // BLOCK == block]] = -torch.inf
        highest_ASN[..., block] = part_ASn.amax(-1)
    N = highest_ASN.shape[2]
    block_AC = (score_AS.unsqueeze(-1) + highest_ASN).flatten(1).topk(most).indices
    parent_AC1 = (block_AC // N).unsqueeze(-1)
    token_ACn = (block_AC % N).unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=block_AC.device)
    place_An = (parent_AC1 * V + token_ACn.clamp(max=V - 1)).flatten(1)
    log_p_ACn = log_p_ASV.flatten(1).gather(1, place_An).view_as(token_ACn)
    never_ACn = token_ACn >= V
    for token in banned:
        never_ACn |= token_ACn == token
    score_ACn = (score_AS.gather(1, block_AC // N).unsqueeze(-1) + log_p_ACn).masked_fill(never_ACn, -torch.inf)
    best_AC, where_AC = score_ACn.flatten(1).topk(most)
    return best_AC, place_An.gather(1, where_AC)


def _ended(ended: Ended, text_A: Tensor, tokens_ASN: Tensor, parent_AC: Tensor, token_AC: Tensor, best_AC: Tensor) -> Tensor:
    """True for each candidate that ends its text, according to `ended`."""
    past, ended_AC = tokens_ASN.tolist(), torch.zeros_like(token_AC, dtype=torch.bool)
    candidates = zip(text_A.tolist(), parent_AC.tolist(), token_AC.tolist(), best_AC.tolist(), strict=True)
    for a, (text, parents, tokens, best) in enumerate(candidates):
        for c, (parent, token, score) in enumerate(zip(parents, tokens, best, strict=True)):
            ended_AC[a, c] = score > -torch.inf and ended(text, (*past[a][parent], token))
    return ended_AC


def _note_ended(
    best: list[list[_BestHypotheses]],
    group: int,
    text_A: Tensor,
    tokens_ASN: Tensor,
    best_AC: Tensor,
    log_p_AC: Tensor,
    parent_AC: Tensor,
    token_AC: Tensor,
    ended_AC: Tensor,
    cut_AC: Tensor,
) -> None:
    """Record the finished candidates, and those that were cut off, with few transfers from the device."""
    a_E, c_E = (ended_AC & (best_AC > -torch.inf)).nonzero(as_tuple=True)
    tokens_EN = torch.cat((tokens_ASN[a_E, parent_AC[a_E, c_E]], token_AC[a_E, c_E].unsqueeze(1)), dim=1).tolist()
    scores_E2 = torch.stack((best_AC[a_E, c_E], log_p_AC[a_E, c_E]), dim=1).tolist()
    texts, cut_E = text_A[a_E.cpu()].tolist(), cut_AC[a_E, c_E].tolist()
    for text, tokens_N, (score, log_p), cut in zip(texts, tokens_EN, scores_E2, cut_E, strict=True):
        best[text][group].add(tuple(tokens_N), score, log_p, finished=not cut)
