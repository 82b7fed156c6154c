"""Text that a run does not know: one rule for all rooms that read a text.

What is not in the vocabulary is marked in the text, with the reason, and the result is shown all the same: the run reads it as
<unk>, or, if it has no <unk>, without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firth.errors import DataError
from firth.models.tagger import Tagger
from firth.serving.lab.request import ViewRequest
from firth.text.config import PairsConfig
from firth.text.tokenizers.offsets import Span
from firth.text.tokenizers.unseen_spans import unseen_spans

if TYPE_CHECKING:
    from firth.serving.lab.library import LoadedRun
    from firth.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class UnknownText:
    """A text in parts, of which some are unknown to the run, and what becomes of these."""

    parts: tuple[tuple[str, bool], ...]
    reason: str
    kept: str  # what the run gets

    def json(self) -> dict[str, object]:
        return {"parts": [list(part) for part in self.parts], "reason": self.reason}


def read(request: ViewRequest, name: str, run: LoadedRun, default: str | None = None, *, lines: bool = False) -> str:
    """A setting of the request as the run can read it; with `lines`, each line is a text of its own."""
    return _read(request, name, request.text(name, default), run, run.source_tokenizer, lines)


def read_target(request: ViewRequest, name: str, run: LoadedRun) -> str:
    """The same for a text on the other side: a translation, or the text that holds an answer."""
    return _read(request, name, request.text(name, ""), run, run.tokenizer, lines=False)


def _read(request: ViewRequest, name: str, text: str, run: LoadedRun, tokenizer: Tokenizer, lines: bool) -> str:
    request.unknown[name] = None
    if isinstance(run.network, Tagger) and run.network.spelling is not None:
        return text  # it reads the characters of a word
    data = run.recipe.data
    lowered = text.lower() if isinstance(data, PairsConfig) and data.lower else text
    spans = unseen_spans(tokenizer, lowered if len(lowered) == len(text) else text)
    spans = [span for span in spans if not (lines and text[slice(*span)] == "\n")]
    if not spans:
        return text
    parts = _parts(text, spans)
    kept = text if tokenizer.unknown is not None else "".join(part for part, strange in parts if not strange)
    if not kept.strip():
        shown = " ".join(text.split())[:40]
        raise DataError(f"the run knows no character of this text: {shown}. Write another one, or choose another run.")
    what = "character" if max(end - start for start, end in spans) == 1 else "word"
    request.unknown[name] = UnknownText(parts, _reason(what, tokenizer), kept)
    return kept


def _parts(text: str, spans: list[Span]) -> tuple[tuple[str, bool], ...]:
    parts, done = [], 0
    for start, end in spans:
        parts += [(text[done:start], False), (text[start:end], True)]
        done = end
    parts.append((text[done:], False))
    return tuple(part for part in parts if part[0])


def _reason(what: str, tokenizer: Tokenizer) -> str:
    becomes = "It is left out." if tokenizer.unknown is None else f"The run reads it as {tokenizer.unknown_name}."
    return f"This {what} is not in the vocabulary of the run. {becomes}"
