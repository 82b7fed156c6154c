"""Speculative decoding: a small draft model proposes tokens, the target model verifies all of them in one step.

    x_i ~ q(· | x_<i), i = 1 … k        proposed by the draft, one step each
    p(· | x_<i), i = 1 … k + 1          the target, in one step of k + 1 tokens
    accept x_i with probability min(1, p(x_i) / q(x_i)); at the first that is rejected, draw from (p − q)₊ / Σ (p − q)₊;
    if none is rejected, draw one more from p, which is the same rule with q = 0

(Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2). The tokens have the target's distribution whatever the draft
proposes; a good draft only makes them come faster. Sampling filters change p and q alike. At temperature 0 both have all their
mass on one token, and the rule becomes: accept what the target would have written.

Letters: k proposed tokens, T tokens of a step, V vocabulary, N tokens so far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import EndlessText, WindowState, has_read
from firth.decoding.graphs.captured import Captured, can_capture, lend, room_for
from firth.decoding.prefill import prefill
from firth.decoding.sampling.choice import penalised, probabilities
from firth.decoding.sampling.draw import at_quantile, random_numbers
from firth.layers.state import AttentionState, FixedKeyValue, can_be_cut
from firth.models import LanguageModel

FIRST, MOST = 4, 16  # tokens that the draft proposes at first, and at most


@dataclass
class Acceptance:
    """The number of tokens that the draft has proposed, and of those that were accepted."""

    proposed: int = 0
    accepted: int = 0

    @property
    def rate(self) -> float:
        return self.accepted / max(1, self.proposed)


@torch.inference_mode()
def speculate(
    model: LanguageModel, draft: LanguageModel, prompt: list[int], config: DecodingConfig, counts: Acceptance | None = None
) -> Iterator[int]:
    """Yield `config.tokens` tokens with the distribution of `generate(model, …)`; at temperature 0, the same tokens.

    Each round proposes k tokens: 2 more than before if all were accepted, otherwise 1 fewer. An acceptance rate of α thus
    settles where α^k = 1/3."""
    counts = Acceptance() if counts is None else counts
    random, target, proposer, text = (
        random_numbers(config.seed, 0),
        _Target(model, prompt),
        _Draft(draft, prompt, model.vocab),
        list(prompt),
    )
    k, left = FIRST, config.tokens
    while left:
        count = min(k, left - 1, target.room(), proposer.room())
        u_n = torch.from_numpy(random.random(2 * count + 1)).to(_wide(target.device))
        past_N = torch.tensor(text if config.reads_text else [], dtype=torch.long)
        token_k, q_kV = proposer.propose(past_N, u_n[:count], config)
        logits_TV = target.verify(token_k)
        token_k, q_kV, u_T, past_N = (x.to(logits_TV.device) for x in (token_k, q_kV, u_n[count:], past_N))
        new = accepted(token_k, q_kV, distributions(logits_TV, torch.cat((past_N, token_k)), config), u_T)
        target.keep(new)
        proposer.keep(new)
        counts.proposed += count
        counts.accepted += len(new) - 1
        if count == k:  # not where the end of the text or of the context allowed fewer
            k = min(MOST, k + 2) if len(new) > count else max(1, k - 1)
        left -= len(new)
        text += new
        yield from new


def accepted(token_k: Tensor, q_kV: Tensor, p_TV: Tensor, u_T: Tensor) -> list[int]:
    """The accepted tokens, and one that the target adds. u: a random number for each decision, and one to draw with."""
    k, q_TV, place_k1 = len(token_k), F.pad(q_kV, (0, 0, 0, 1)), token_k.unsqueeze(1)  # q = 0 after the last proposal
    # u < p / q, where q > 0, because the token was drawn from it
    accept_k = u_T[:k] * q_kV.gather(1, place_k1).squeeze(1) < p_TV[:k].gather(1, place_k1).squeeze(1)
    n = accept_k.long().cumprod(0).sum()
    rest_V = (p_TV[n] - q_TV[n]).clamp(min=0)
    rest_V = torch.where(rest_V.sum() > 0, rest_V, p_TV[n])  # p = q but for rounding
    token_1 = at_quantile(rest_V.unsqueeze(0), u_T[k:])
    tokens: list[int] = torch.cat((token_k, token_1, n.view(1))).tolist()  # one transfer from the device
    return [*tokens[: tokens[-1]], tokens[-2]]


def distributions(logits_TV: Tensor, past_N: Tensor, config: DecodingConfig) -> Tensor:
    """p_TV that the tokens are drawn from: the last row's with all of past_N before it, the one before it with one token less.
    In float64, where a device has it."""
    T, N = len(logits_TV), len(past_N)
    if config.reads_text:
        rows = [penalised(logits_TV[t : t + 1], config, past_N[: N - T + 1 + t].unsqueeze(0)) for t in range(T)]
        logits_TV = torch.cat(rows)
    return probabilities(logits_TV, config, _wide(logits_TV.device))


def _wide(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


class _Target:
    """The model that verifies. It has read all of `held` but the last token."""

    def __init__(self, model: LanguageModel, prompt: list[int]) -> None:
        self.model, self.device = model, next(model.parameters()).device
        self.captured = lend(model, self) if can_capture(model) else None
        self.capacity = 0  # of a state of fixed size, whose steps are replayed
        self.held = prompt if model.context is None else prompt[-model.context :]
        self.state = self._read(self.held[:-1])
        self.after: Any = None
        self.token_1T = torch.empty(1, 0)

    def room(self) -> int:
        """The number of proposals that fit into the context. When it is full, its later half is read again, as EndlessText
        does."""
        limit = self.model.context
        if limit is None:
            return MOST
        if len(self.held) > limit:
            self.held = self.held[-max(1, limit // 2) :]
            self.state = self._read(self.held[:-1])
        return limit - len(self.held)

    def verify(self, token_k: Tensor) -> Tensor:
        """The logits_TV after the last token of the text and after each proposal, T = k + 1."""
        last_1 = torch.tensor(self.held[-1:], device=self.device)
        self.token_1T = torch.cat((last_1, token_k.to(self.device))).unsqueeze(0)
        if self.captured is None or not self._is_roomy(self.captured):
            x_1Td, self.after = self.model.hidden(self.token_1T, self.state)
            return self.model.readout(x_1Td)[0]
        spare = self.capacity - len(self.held) - len(token_k)
        logits_1TV, self.after = self.captured.step(self.token_1T, self.state, spare=spare)
        return logits_1TV[0]

    def _is_roomy(self, captured: Captured) -> bool:
        """True if the state has a fixed size, with room for the proposals; it gets it if it can."""
        limit = self.model.context
        if limit is None or not captured.can_start or not has_read(self.state):
            return False
        room = room_for(min(len(self.held) + 2 * MOST, limit), limit)
        if room > self.capacity:
            self.state, self.capacity = captured.fixed(self.state, room), room
        return True

    def keep(self, new: list[int]) -> None:
        """Forget the proposals that were rejected. `new`: those that were accepted, and a token that is not read yet."""
        self.state = _rewound(self.model, self.state, self.after, self.token_1T, len(new))
        self.held = self.held + new if self.model.context is not None else new

    def _read(self, tokens: list[int]) -> Any:
        self.capacity, state = 0, self.model.start(1)
        return prefill(self.model, torch.tensor([tokens], device=self.device), state)[1] if tokens else state


def _rewound(model: LanguageModel, before: Any, after: Any, token_1T: Tensor, count: int) -> Any:
    """The state after only the first `count` of the tokens that were read between `before` and `after`."""
    dropped = token_1T.shape[1] - count
    if not dropped:
        return after
    if can_be_cut(after):
        return after.cut(after.length - dropped).reclaim() if after.length_B is None else after.at(after.length_B - dropped)
    if isinstance(before, AttentionState):
        before.reclaim()
    return model.hidden(token_1T[:, :count], before)[1]


class _Draft:
    """The model that proposes. It has read the text but for its `pending` tokens. A step leaves the state before it as it was, so
    to forget proposals means to go back to an earlier state, whatever the model is."""

    def __init__(self, model: LanguageModel, prompt: list[int], vocab: int) -> None:
        self.endless, self.device, self.vocab = EndlessText(model), next(model.parameters()).device, vocab
        self.state, self.pending = self.endless.start(1), prompt
        self.states: list[WindowState] = []  # of the last round: before the first proposal was read, after it, after the second …

    def room(self) -> int:
        """The number of tokens that it can propose before its context is full. Within a round it is not read again, so that a
        step on a GPU does not overwrite what an earlier state holds."""
        limit, before = self.endless.model.context, self.state.length
        if limit is None:
            return MOST
        held = before + len(self.pending)
        if held > limit:
            held = max(1, limit // 2) if before else limit
        return limit - held + 1

    def propose(self, past_N: Tensor, u_k: Tensor, config: DecodingConfig) -> tuple[Tensor, Tensor]:
        """A token for each random number, and the distributions q_kV that they were drawn from."""
        past_N, u_k, self.states = past_N.to(self.device), u_k.to(self.device), []
        tokens, q = [past_N[:0]], [torch.zeros(0, self.vocab, dtype=u_k.dtype, device=self.device)]
        for n in range(len(u_k)):
            logits_11V = self._read(self.pending if n == 0 else tokens[-1])
            q_1V = distributions(_fitted(logits_11V[0], self.vocab), torch.cat((past_N, *tokens)), config)
            tokens.append(at_quantile(q_1V, u_k[n : n + 1]))
            q.append(q_1V)
            self.states.append(dataclasses.replace(self.state, inner=_copied(self.state.inner)))
        return torch.cat(tokens), torch.cat(q)

    def _read(self, tokens: list[int] | Tensor) -> Tensor:
        """The logits after the last of them. The target may write ids that a smaller embedding lacks, see _fitted."""
        token_1T = torch.as_tensor(tokens, device=self.device).clamp(max=self.endless.model.vocab - 1).unsqueeze(0)
        started = bool(self.states or self.state.length)
        for part_1T in token_1T.split(1, dim=1) if self.endless.captured and started else (token_1T,):  # type: ignore[no-untyped-call]
            logits_11V, self.state = self.endless.step(part_1T, self.state)
        return logits_11V

    def keep(self, new: list[int]) -> None:
        if not self.states:
            self.pending = [*self.pending, *new]
            return
        read = min(len(new), len(self.states)) - 1  # how many of the new tokens are proposals that were read
        self.state, self.pending = self.states[read], new[read:]
        if isinstance(self.state.inner, AttentionState):
            self.state.inner.reclaim()


def _copied(state: Any) -> Any:
    """A copy of the state, if a step on a GPU would overwrite it (captured.py). Keys and values need no copy, because they are
    only appended to."""
    if isinstance(state, AttentionState):
        if state.length_B is None:
            return state
        layers = tuple(layer if isinstance(layer, FixedKeyValue) else _cloned(layer) for layer in state.layers)
        return AttentionState(layers).at(state.length_B.clone())
    return _cloned(state) if state.tensors()[0].is_cuda else state


def _cloned(state: Any) -> Any:
    return state.of([tensor.clone() for tensor in state.tensors()])


def _fitted(logits_TV: Tensor, vocab: int) -> Tensor:
    """−∞ for tokens that the draft does not have: models that share a tokenizer may pad their output layers differently."""
    logits_TV = logits_TV[:, :vocab]
    return F.pad(logits_TV, (0, vocab - logits_TV.shape[1]), value=-torch.inf)
