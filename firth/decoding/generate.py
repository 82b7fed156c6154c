"""Generate text token by token with a cached state. Letters: B batch, T time, N tokens so far, V vocabulary."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.graphs.captured import MOST, Captured, can_capture, is_fixed, lend, padded_width, room_for
from firth.decoding.loop import Loop, TextRow
from firth.decoding.prefill import prefill
from firth.decoding.sampling.choice import pick
from firth.decoding.sampling.rows import Spelled, TextSoFar
from firth.errors import ConfigError
from firth.layers.state import AttentionState
from firth.models import LanguageModel

_AHEAD = 32  # tokens that a GPU computes before they are read


def generate(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig, spelled: Spelled | None = None) -> Iterator[Tensor]:
    """Yield token_B, `config.tokens` times, on the CPU. Tokens of the prompt, too, count as repeated. With a constraint, which
    needs `spelled`, it ends when nothing can follow in any row."""
    past = prompt_BT.tolist() if config.reads_text else [()] * len(prompt_BT)
    return resumed(model, prompt_BT, [TextRow.of(config, row, tokens, spelled) for row, tokens in enumerate(past)])


def resumed(model: LanguageModel, prompt_BT: Tensor, rows: Sequence[TextRow]) -> Iterator[Tensor]:
    """Like `generate`, for texts some of whose tokens have been drawn already."""
    config = rows[0].text.config
    tokens = _tokens(model, prompt_BT, rows, config)
    if not prompt_BT.is_cuda:
        yield from tokens
        return
    count = 1
    while ahead := list(itertools.islice(tokens, count)):
        # Tokens are read in groups: reading one waits for it, and meanwhile the GPU would have nothing to do.
        yield from torch.stack(ahead).cpu()
        count = min(4 * count, _AHEAD)


def _tokens(model: LanguageModel, prompt_BT: Tensor, rows: Sequence[TextRow], config: DecodingConfig) -> Iterator[Tensor]:
    endless = EndlessText(model)
    loop = Loop(endless, endless.start(len(rows)), prompt_BT, rows, endless.pick)
    for _ in range(config.tokens):
        yield loop.write()
        if config.constrains and _over([row.text for row in rows]):
            return
    if not all(row.text.matches for row in rows):
        warnings.warn(f"the text was cut off after {config.tokens} tokens, before it matched. Ask for more tokens.", stacklevel=2)


def _over(texts: Sequence[TextSoFar]) -> bool:
    """True if none of the texts can continue; a text that can no longer match is an error."""
    for text in texts:
        if text.failure is not None:
            raise ConfigError(text.failure)
    return all(text.ended for text in texts)


@dataclass(frozen=True, eq=False)
class WindowState:
    """A model's state and, if the context is bounded, the tokens from which it was computed, in the pieces in which they came."""

    inner: Any
    pieces: tuple[Tensor, ...] = ()  # token_BT each
    length: int = 0  # of all pieces
    room: int = 0  # of a state of fixed size: its capacity

    def select(self, rows: Tensor) -> WindowState:
        pieces = (self.held()[rows],) if self.pieces else ()
        return replace(self, inner=self.inner.select(rows), pieces=pieces)

    def held(self) -> Tensor:
        return self.pieces[0] if len(self.pieces) == 1 else torch.cat(self.pieces, dim=1)


class EndlessText:
    """A language model whose text may be longer than its context, and which computes the logits of the last token only.

    When a bounded context is full, the later half of its tokens is processed again from position 0, so each token is processed
    at most twice however long the text. On a GPU, short steps are replayed (captured.py)."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.captured = lend(model, self) if can_capture(model) else None

    def start(self, batch: int) -> WindowState:
        return WindowState(self.model.start(batch))

    def step(self, token_BT: Tensor, state: WindowState) -> tuple[Tensor, WindowState]:
        limit = self.model.context
        if limit is None:
            return self._advance(token_BT, state)
        if not state.pieces:
            token_BT = token_BT[:, -limit:]
        length = state.length + token_BT.shape[1]
        if length <= limit:
            return self._advance(token_BT, replace(state, pieces=(*state.pieces, token_BT), length=length))
        token_BT = torch.cat((*state.pieces, token_BT), dim=1)[:, -max(1, limit // 2) :]
        again = WindowState(self.model.start(len(token_BT)), (token_BT,), token_BT.shape[1], state.room)
        return self._advance(token_BT, again)

    def pick(self, logits_BV: Tensor, config: DecodingConfig, u_B: Tensor) -> Tensor:
        """choice.pick, replayed on a GPU."""
        return (pick if self.captured is None else self.captured.pick)(logits_BV, config, u_B)

    @torch.inference_mode()
    def _advance(self, token_BT: Tensor, state: WindowState) -> tuple[Tensor, WindowState]:
        """`state` counts the new tokens already, but its inner state is the one before them."""
        if self.captured is not None:
            state = self._fixed(token_BT, state, self.captured)
            if is_fixed(state.inner) and token_BT.shape[1] <= MOST:
                logits_B1V, inner = self.captured.read(token_BT, state.inner, spare=state.room - state.length)
                return logits_B1V, replace(state, inner=inner)
        x_B1d, inner = prefill(self.model, token_BT, state.inner)
        return self.model.readout(x_B1d), replace(state, inner=inner)

    def _fixed(self, token_BT: Tensor, state: WindowState, captured: Captured) -> WindowState:
        """The state in memory of a fixed size, with room for the new tokens and their padding. The state of a text that begins
        with many tokens becomes one after them."""
        (rows, tokens), limit = token_BT.shape, self.model.context
        short, reads_on = tokens <= MOST, has_read(state.inner)
        if not reads_on and (not short or limit is None or not captured.can_start):
            return state
        room = 1
        if limit is not None:
            padding = padded_width(tokens) - tokens if short else 0
            room = max(state.room, room_for(min(state.length + padding, limit), limit))
        if not reads_on:
            return replace(state, inner=captured.start(rows, room), room=room)
        if is_fixed(state.inner) and room <= state.room:
            return state
        return replace(state, inner=captured.fixed(state.inner, room), room=room)


def has_read(state: Any) -> bool:
    """True if a token has been processed; before that, the shapes of keys and values are unknown."""
    return not isinstance(state, AttentionState) or state.length_B is not None or state.length > 0
