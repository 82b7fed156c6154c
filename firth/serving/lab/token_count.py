"""Number of tokens of a text under a loaded run's tokenizer, for rooms that limit the size of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firth.serving.lab.library import LoadedRun
    from firth.text.tokenizers.tokenizer import Tokenizer


def count_tokens(run: LoadedRun, text: str) -> int:
    return _count(run.tokenizer, text)


def count_source_tokens(run: LoadedRun, text: str) -> int:
    """With the source tokenizer of a translator, which other runs do not have."""
    return _count(run.source_tokenizer, text)


def _count(tokenizer: Tokenizer, text: str) -> int:
    """0 for a text that the tokenizer cannot encode; the view that follows reports that."""
    return 0 if tokenizer.unknown is None and tokenizer.unseen(text) else len(tokenizer.encode(text))
