"""Writing a text token by token: before each, what may come next and how probable it is.

With the same settings throughout, what is written is what `Model.generate` writes; here the settings may change on the way, and a
token may be taken back, because all that counts is the tokens so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from firth.decoding.sample import DecodingConfig, pick, restrict
from firth.errors import ConfigError, DataError
from firth.figures.figure import Figure
from firth.figures.next_token import next_bars

if TYPE_CHECKING:
    from firth.api.model import Model


@dataclass(frozen=True)
class Candidate:
    id: int
    token: str
    probability: float  # of the model
    share: float  # once temperature, top_k and top_p have acted; 0 for what they leave out


@dataclass(frozen=True)
class Next:
    """After the prompt and what was written since."""

    tokens: tuple[str, ...]  # what was written
    pieces: tuple[str, ...]  # what each of them adds to the text; nothing while a character is incomplete
    probabilities: tuple[float | None, ...]  # of each when it came; None for what a bounded context has lost
    candidates: tuple[Candidate, ...]  # by falling probability
    entropy: float  # of the model's probabilities, in bits
    drawn: Candidate  # the one that the seed draws
    ended: bool  # the text is over: <eos> was written

    @property
    def text(self) -> str:
        """What was written, as text."""
        return "".join(self.pieces)

    def figure(self) -> Figure:
        columns = zip(*((one.token, one.probability, one.share) for one in self.candidates), strict=True)
        return next_bars(*columns)

    def plot(self) -> Any:
        """The Plotly figure, which a notebook shows."""
        return self.figure().plot


def next_token(model: Model, prompt: str, written: Sequence[int], config: DecodingConfig, top: int = 12) -> Next:
    """What may follow `prompt` and the ids in `written`, the `top` most probable of it."""
    network, opening = model.language, _opening(model, prompt)
    _refuse_strange(model, written)
    held = _held(opening, written, network.context)
    kept = min(len(written), len(held) - 1)  # written tokens whose predecessor is held, too
    x_1Td, _ = _read(model, held, network.start(1))
    with torch.inference_mode():
        logits_nV = network.readout(x_1Td[:, -kept - 1 :])[0].float()
    log_p_nV = torch.log_softmax(logits_nV, -1)
    of_written = [float(log_p_nV[n, id].exp()) for n, id in enumerate(written[len(written) - kept :])]
    p_V = log_p_nV[-1].exp()
    share_V = _shares(logits_nV[-1], config)
    chosen = torch.sort(p_V, descending=True, stable=True).indices[: max(1, top)].tolist()

    def candidate(id: int) -> Candidate:
        return Candidate(id, model.tokenizer.token(id), float(p_V[id]), float(share_V[id]))

    return Next(
        tokens=tuple(model.tokenizer.token(id) for id in written),
        pieces=_pieces(model, opening, written),
        probabilities=(*(None for _ in range(len(written) - kept)), *of_written),
        candidates=tuple(map(candidate, chosen)),
        entropy=float(torch.special.entr(p_V).sum() / torch.log(torch.tensor(2.0))),
        drawn=candidate(int(pick(logits_nV[-1:], config, _generator(config.seed, len(written), network.vocab)))),
        ended=bool(written) and ends(model, written[-1]),
    )


def write(model: Model, prompt: str, written: Sequence[int], config: DecodingConfig) -> Iterator[int]:
    """Ids that are drawn after `prompt` and `written`, until the text is over or there are config.tokens more of them."""
    network, limit = model.language, model.language.context
    _refuse_strange(model, written)
    held = _held(_opening(model, prompt), written, limit)
    generator = _generator(config.seed, len(written), network.vocab)
    x_1Td, state = _read(model, held, network.start(1))
    for _ in range(config.tokens):
        with torch.inference_mode():
            logits_1V = network.readout(x_1Td[:, -1:])[:, -1]
        id = int(pick(logits_1V, config, generator))
        yield id
        if ends(model, id):
            return
        full = limit is not None and len(held) >= limit
        held = _followed(held, id, limit)
        x_1Td, state = _read(model, held, network.start(1)) if full else _read(model, [id], state)


def ends(model: Model, id: int) -> bool:
    """Whether nothing comes after this token; among words, <eos> ends a line only."""
    return id == model.tokenizer.eos and model.tokenizer.kind != "word"


def _pieces(model: Model, opening: Sequence[int], written: Sequence[int]) -> tuple[str, ...]:
    over = len(written) - bool(written and ends(model, written[-1]))
    spelled = list(model.tokenizer.spell(iter([*opening, *written[:over]])))
    return (*spelled[len(opening) : len(opening) + over], *[""] * (len(written) - over))


def _opening(model: Model, prompt: str) -> list[int]:
    ids: list[int] = (model.ids(prompt) if prompt else model.opening()).tolist()
    if not ids:
        raise DataError("the prompt is empty and the vocabulary has neither <eos> nor a newline to begin with; give a prompt")
    return ids


def _refuse_strange(model: Model, written: Sequence[int]) -> None:
    strange = [id for id in written if not 0 <= id < model.tokenizer.vocab]
    if strange:
        raise ConfigError(
            f"token {strange[0]} was written; this model has {model.tokenizer.vocab:,}, 0 … {model.tokenizer.vocab - 1}"
        )


def _held(opening: Sequence[int], written: Sequence[int], limit: int | None) -> list[int]:
    """What decoding/generate.py has in its context by then."""
    held = list(opening if limit is None else opening[-limit:])
    for id in written:
        held = _followed(held, id, limit)
    return held


def _followed(held: list[int], id: int, limit: int | None) -> list[int]:
    """A full context keeps the later half."""
    longer = [*held, id]
    return longer if limit is None or len(longer) <= limit else longer[-max(1, limit // 2) :]


@torch.inference_mode()
def _read(model: Model, ids: Sequence[int], state: Any) -> tuple[Tensor, Any]:
    return model.language.hidden(torch.tensor([list(ids)], device=model.device), state)


def _shares(logits_V: Tensor, config: DecodingConfig) -> Tensor:
    if config.temperature == 0:
        return torch.nn.functional.one_hot(logits_V.argmax(), len(logits_V)).float()
    return torch.softmax(restrict(logits_V.unsqueeze(0) / config.temperature, config.top_k, config.top_p), -1)[0]


def _generator(seed: int, drawn: int, vocab: int) -> torch.Generator:
    """That of `seed` after so many draws: a draw takes as many random numbers whatever the probabilities are."""
    generator = torch.Generator().manual_seed(seed)
    same_1V = torch.ones(1, vocab)
    for _ in range(drawn):
        torch.multinomial(same_1V, 1, generator=generator)
    return generator
