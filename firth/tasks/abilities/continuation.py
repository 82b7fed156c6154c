"""The most probable continuations of a prompt: beam search with a language model. Letters: B batch, P length of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import EndlessText
from firth.decoding.search.beam import Hypothesis, beam
from firth.models import LanguageModel
from firth.tasks.abilities.stop_strings import stop_at, until_stop
from firth.tasks.run import Run

LanguageRun = Run[LanguageModel]
_NEVER = -1  # no token has this id


@dataclass(frozen=True)
class Continuation:
    text: str
    log_probability: float  # Σ log p(token | tokens before it), of the model
    score: float  # the beam's ranking: log p, with any repetition penalty, over the length penalty
    finished: bool = True  # it ended with <eos> or a stop string; False: cut off at decoding.tokens


def search(
    model: LanguageRun, ids: Sequence[int], config: DecodingConfig, ends: tuple[int, ...] | None = None
) -> list[Continuation]:
    """The config.beam best continuations of a prompt, best first. Those that end early compete with those of config.tokens
    tokens; without <eos> and stop strings, all have that length. `ends` end a text, by default `end_tokens`."""

    def stops(tokens: Sequence[int]) -> bool:
        return bool(config.stop) and stop_at(spelled(model, ids, tokens), config.stop) is not None

    prompt_1P = torch.tensor([list(ids)], device=model.device)
    endless, ends = EndlessText(model.network), end_tokens(model) if ends is None else ends
    (hypotheses,) = beam(
        endless,
        endless.start(1),
        prompt_1P,
        config,
        limits=[config.tokens],
        end=ends[0] if ends else _NEVER,
        limit_ends=True,
        seen_BP=prompt_1P,
        ended=(lambda _, tokens: tokens[-1] in ends or stops(tokens)) if config.stop or len(ends) > 1 else None,
    )
    return [_told(model, ids, hypothesis, config.stop, ends) for hypothesis in hypotheses]


def end_tokens(model: LanguageRun) -> tuple[int, ...]:
    """The tokens that end a text: <end> of a message, or <eos> and others that an imported model lists; for word tokenizers
    <eos> ends only a line."""
    tokenizer = model.tokenizer
    if (own := getattr(model, "end", None)) is not None:  # from a chat template
        return int(own), *(tokenizer.ends if tokenizer.kind == "imported" else ())
    if tokenizer.end_of_message is not None:
        return (tokenizer.end_of_message,)
    return () if tokenizer.whole_words else tokenizer.ends


def spelled(model: LanguageRun, before: Sequence[int], tokens: Sequence[int]) -> str:
    """The text that `tokens` add to that of the tokens `before`; only the last of those affects their spelling. An incomplete
    character at the end is left out."""
    last = list(before[-1:])
    pieces = list(model.tokenizer.spell(iter([*last, *tokens])))
    return "".join(pieces[len(last) : len(last) + len(tokens)])


def _told(
    model: LanguageRun, ids: Sequence[int], hypothesis: Hypothesis, stops: Sequence[str], ends: tuple[int, ...]
) -> Continuation:
    tokens = hypothesis.tokens
    ended = bool(tokens) and tokens[-1] in ends
    text = "".join(until_stop([spelled(model, ids, tokens[:-1] if ended else tokens)], stops))
    return Continuation(text, hypothesis.log_probability, hypothesis.score, hypothesis.finished)
