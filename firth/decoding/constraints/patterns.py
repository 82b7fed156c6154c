"""Grammars of one regular expression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firth.text.tokenizers.spelling import Spelling

if TYPE_CHECKING:
    from firth.decoding.sampling.rows import Spelled


def grammar_of(pattern: str, spelled: Spelled) -> str:
    """The grammar of whole texts that match and that the vocabulary can spell, so that generation never reaches a dead end."""
    spelling = spelled.spelling
    body = f"/({_escaped(pattern)}){spelling.suffix}/"
    if spelled.begins and spelling.drops_space:  # where a space is not shown, it is no part of the text
        body = rf"(/ ({_escaped(pattern)})/ | ({body} & /([^ ](.|\n)*)?/))"
    return f"start: TEXT\nTEXT: {_spellable(body, spelling)}\n"


def _spellable(body: str, spelling: Spelling) -> str:
    return body if spelling.texts is None else f"({body}) & /{_escaped(spelling.texts)}/"


def _escaped(pattern: str) -> str:
    """The same regular expression between slashes, in which a slash and a newline have to be escaped."""

    def changed(match: re.Match[str]) -> str:
        return {"/": r"\/", "\n": r"\n", "\\\n": r"\n"}.get(match[0], match[0])

    return re.sub(r"\\.|/|\n", changed, pattern, flags=re.DOTALL)
