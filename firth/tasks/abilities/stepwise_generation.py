"""Generating a text token by token, with the distribution over the next token at every step.

With constant settings the result equals `LanguageModelRun.generate`; here the settings may change on the way and a token may be
taken back, because only the tokens so far matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import resumed
from firth.decoding.loop import TextRow
from firth.decoding.sampling.choice import penalised, pick, probabilities
from firth.decoding.sampling.draw import Draws
from firth.errors import ConfigError
from firth.figures.figure import Figure
from firth.figures.next_token import next_bars
from firth.models import LanguageModel
from firth.tasks.abilities.continuation import end_tokens, spelled
from firth.tasks.abilities.stop_strings import stop_at
from firth.tasks.run import Run

LanguageRun = Run[LanguageModel]


@dataclass(frozen=True)
class Candidate:
    id: int
    token: str
    probability: float  # of the model
    share: float  # after all sampling filters; 0 for the tokens they exclude


@dataclass(frozen=True)
class Next:
    """The state of a generation after the prompt and the tokens written so far."""

    tokens: tuple[str, ...]  # what was written
    pieces: tuple[str, ...]  # what each of them adds to the text; nothing while a character is incomplete
    probabilities: tuple[float | None, ...]  # of each when it was written; None for those outside a bounded context
    candidates: tuple[Candidate, ...]  # most probable first
    entropy: float  # of the model's probabilities, in bits
    sampling_entropy: float  # of the shares, from which the next token is drawn, in bits
    drawn: Candidate  # the token that the seed samples
    ended: bool  # <eos> was written

    @property
    def text(self) -> str:
        """The tokens written so far, as text."""
        return "".join(self.pieces)

    def figure(self) -> Figure:
        columns = zip(*((one.token, one.probability, one.share) for one in self.candidates), strict=True)
        return next_bars(*columns)

    def plot(self) -> Any:
        """The Plotly figure, which a notebook shows."""
        return self.figure().plot


def next_token(model: LanguageRun, prompt: str, written: Sequence[int], config: DecodingConfig, top: int = 12) -> Next:
    """The `top` most probable tokens after `prompt` and the ids in `written`."""
    network, prompt_ids = model.network, _prompt_ids(model, prompt)
    model.expect_ids(written)
    _refuse_alone(config)
    held = _held(prompt_ids, written, network.context)
    kept = min(len(written), len(held) - 1)  # written tokens whose predecessor is held, too
    with torch.inference_mode():
        x_1Td, _ = network.hidden(torch.tensor([held], device=model.device), network.start(1))
        logits_nV = network.readout(x_1Td[:, -kept - 1 :])[0].float()
    log_p_nV = torch.log_softmax(logits_nV, -1)
    of_written = [float(log_p_nV[n, id].exp()) for n, id in enumerate(written[len(written) - kept :])]
    p_V = log_p_nV[-1].exp()
    logits_1V = penalised(logits_nV[-1:], config, torch.tensor([[*prompt_ids, *written]]))
    share_V = probabilities(logits_1V, config)[0]
    chosen = torch.sort(p_V, descending=True, stable=True).indices[: max(1, top)].tolist()

    def candidate(id: int) -> Candidate:
        return Candidate(id, model.tokenizer.token(id), float(p_V[id]), float(share_V[id]))

    return Next(
        tokens=tuple(model.tokenizer.token(id) for id in written),
        pieces=_pieces(model, prompt_ids, written),
        probabilities=(*(None for _ in range(len(written) - kept)), *of_written),
        candidates=tuple(map(candidate, chosen)),
        entropy=_bits(p_V),
        sampling_entropy=_bits(share_V),
        drawn=candidate(int(pick(logits_1V.cpu(), config, torch.from_numpy(Draws(config.seed, 0).of(len(written), 1))))),
        ended=bool(written) and ends(model, written[-1]),
    )


def write(model: LanguageRun, prompt: str, written: Sequence[int], config: DecodingConfig) -> Iterator[int]:
    """Sampled ids after `prompt` and `written`, until <eos>, the last token of a stop string, or config.tokens of them."""
    model.expect_ids(written)
    _refuse_alone(config)
    prompt_ids = _prompt_ids(model, prompt)
    held_1T = torch.tensor([_held(prompt_ids, written, model.network.context)], device=model.device)
    row = TextRow.of(config, 0, [*prompt_ids, *written], drawn=len(written))
    told = list(written)
    for token_1 in resumed(model.network, held_1T, [row]):
        told.append(int(token_1))
        yield told[-1]
        if ends(model, told[-1]) or (config.stop and _stopped(model, prompt_ids, told, config.stop)):
            return


def ends(model: LanguageRun, id: int) -> bool:
    """True if this token ends the text; for word tokenizers <eos> ends only a line."""
    return id in end_tokens(model)


def _stopped(model: LanguageRun, prompt_ids: Sequence[int], written: Sequence[int], stops: Sequence[str]) -> bool:
    return stop_at(spelled(model, prompt_ids, written), stops) is not None


def _pieces(model: LanguageRun, prompt_ids: Sequence[int], written: Sequence[int]) -> tuple[str, ...]:
    over = len(written) - bool(written and ends(model, written[-1]))
    spelled = list(model.tokenizer.spell(iter([*prompt_ids, *written[:over]])))
    return (*spelled[len(prompt_ids) : len(prompt_ids) + over], *[""] * (len(written) - over))


def _prompt_ids(model: LanguageRun, prompt: str) -> list[int]:
    ids: list[int] = model.prompt_ids(prompt).tolist()
    return ids


def _refuse_alone(config: DecodingConfig) -> None:
    """Refuse filters whose memory of a text cannot be told from its tokens."""
    if names := config.alone_settings():
        raise ConfigError(f"{names[0]} cannot be used step by step. Remove it.")


def _held(prompt_ids: Sequence[int], written: Sequence[int], limit: int | None) -> list[int]:
    """The tokens that decoding/generate.py has in its context at this point."""
    held = list(prompt_ids if limit is None else prompt_ids[-limit:])
    for id in written:
        held = _followed(held, id, limit)
    return held


def _followed(held: list[int], id: int, limit: int | None) -> list[int]:
    """When the context is full, its later half is kept."""
    longer = [*held, id]
    return longer if limit is None or len(longer) <= limit else longer[-max(1, limit // 2) :]


def _bits(p_V: Tensor) -> float:
    return float(torch.special.entr(p_V).sum() / torch.log(torch.tensor(2.0)))
