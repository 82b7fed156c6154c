"""Speculative decoding with two runs: a small one proposes tokens for the other (decoding/search/speculative.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.decoding.sampling.rows import Spelled
from firth.decoding.search.speculative import Acceptance, speculate
from firth.errors import ConfigError
from firth.models import LanguageModel
from firth.tasks.run import Run

LanguageRun = Run[LanguageModel]


def sampled(
    run: LanguageRun,
    ids: Sequence[int],
    config: DecodingConfig,
    draft: LanguageRun | None = None,
    counts: Acceptance | None = None,
    *,
    before: Sequence[int] = (),
    ends: tuple[int, ...] = (),
) -> Iterator[int]:
    """The tokens that follow `ids`: drawn one by one, or in rounds if there is a draft, whose proposals are counted. Constraints
    need to know which tokens are shown before the text, and which end it."""
    if draft is not None:
        return speculate(run.network, draft.network, list(ids), config, counts)
    prompt_1P = torch.tensor([list(ids)], device=run.device)
    spelled = spelled_after(run, before, ends) if config.constrains else None
    return (int(token_B) for token_B in generate(run.network, prompt_1P, config, spelled))


def spelled_after(run: LanguageRun, before: Sequence[int], ends: tuple[int, ...]) -> Spelled:
    """The spelling of a text that follows the tokens `before`."""
    return Spelled(run.tokenizer.spelling, ends, run.tokenizer.begins_text(before))


def check_draft(run: LanguageRun, draft: LanguageRun | None, config: DecodingConfig) -> None:
    """Refuse a draft that cannot propose tokens for this run."""
    if draft is None:
        return
    if not isinstance(getattr(draft, "network", None), LanguageModel):
        noun = draft.task.noun if isinstance(draft, Run) else f"a {type(draft).__name__}"
        raise ConfigError(f"the draft is {noun}. Give the run of a language model.")
    if config.beam > 1:
        raise ConfigError(f"a draft only applies to sampling and greedy decoding, but beam is {config.beam}. Remove one of them.")
    if names := config.alone_settings():
        raise ConfigError(f"{names[0]} cannot be combined with a draft. Remove one of them.")
    if not run.tokenizer.same_tokens(draft.tokenizer):
        raise ConfigError(
            f"the draft has another vocabulary, {draft.tokenizer.vocab:,} {draft.tokenizer.kind} tokens instead of "
            f"{run.tokenizer.vocab:,} {run.tokenizer.kind} tokens. Train one with the same [data] and [tokenizer]."
        )
