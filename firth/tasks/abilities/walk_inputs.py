"""The walk of a run over token ids: those of a prompt and of what was generated after it, or of a translation so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from firth.errors import DataError
from firth.inspection.inputs import Reading
from firth.inspection.walk import Walk, walk
from firth.models import ConditionalDecoder
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.tasks.abilities.inspection_inputs import PairInputs, names, one_reading, one_row
from firth.tasks.run import Run


class Walked(NamedTuple):
    """A walk and the ids that it is over: the input of a language model, or the target so far of a translator."""

    walk: Walk
    ids: tuple[int, ...]
    written: int  # how many of the ids are not the prompt's
    tokens: tuple[str, ...]  # of the ids


def walk_text(run: Run[Any], text: str, ids: Sequence[int] | None = None, last: str = "") -> Walked:
    """`ids`: used instead of those of the text; `last`, if given, replaces the last token."""
    run.expect_ids(ids or ())
    return _pair(run, text, ids, last) if isinstance(run.network, ConditionalDecoder) else _language(run, text, ids, last)


def _language(run: Run[Any], text: str, ids: Sequence[int] | None, last: str) -> Walked:
    prompt = run.prompt_ids(text).tolist()
    chosen = _replaced(run, list(prompt if ids is None else ids), last)
    refuse_longer(run.network, len(chosen))
    reading = one_reading(run.network, run.tokenizer, np.asarray(chosen, np.int64), run._forward)
    walked = walk(reading, run.tokenizer.token)
    return Walked(walked, tuple(chosen), max(0, len(chosen) - len(prompt)), reading.tokens)


def _pair(run: Any, text: str, ids: Sequence[int] | None, last: str) -> Walked:
    if not text.strip():
        raise DataError("the text is empty; give at least one token")
    source_S, tokenizer = run._encoder().encode([text]).ids[0].astype(np.int64), run.tokenizer
    if ids is None:
        ids = [int(id) for id in run.translator.best(source_S, run.recipe.decoding)]
        ids = ids[:-1] if ids and ids[-1] == tokenizer.eos else ids
    target = _replaced(run, list(ids), last)
    given = np.asarray([tokenizer.decoder.start, *target], np.int64)
    input_1T, _ = one_row(run.network, given)
    pair = PairInputs(names(run.source_tokenizer, source_S), *one_row(run.network, source_S), given, input_1T)
    written = (*names(tokenizer, target), tokenizer.token(int(given[0])))
    reading = Reading(run.network, partial(pair.run, run.network), pair.tokens, written, not tokenizer.whole_words)
    return Walked(walk(reading, tokenizer.token), tuple(target), len(target), names(tokenizer, target))


def _replaced(run: Run[Any], ids: list[int], last: str) -> list[int]:
    return [*ids[:-1], *run.ids(last).tolist()] if last else ids
