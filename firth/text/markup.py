"""The markup of documentation, reStructuredText's and Markdown's within a line, as the text that a reader would see.

It also works on a piece of a line, in which markup may begin or end outside the piece. HTML stays as it is.
"""

from __future__ import annotations

import re

_RENDERED = (
    (re.compile(r":[\w:.+-]+:`[~!][\w.]*?(\w+)`"), r"\1"),  # :class:`~torch.Tensor` is Tensor
    (re.compile(r"\s<[^<>`\s]+>`"), "`"),  # the target of a link
    (re.compile(r"\[([^\][]+)\]\([^()\s]+\)"), r"\1"),  # [text](address)
    (re.compile(r"(?<![\w:])(?::[\w.+-]+)+:(?=`)"), ""),  # the name of a role
    (re.compile(r"^(?:>\s*)?\.\. ([\w-]+):: ?"), r"\1: "),  # a directive
    (re.compile(r"(?<!\S)([=~^#*+-])\1{3,}(?!\S)"), ""),  # a line below a heading
    (re.compile(r"\*\*(\S(?:[^*]*\S)?)\*\*"), r"\1"),
    (re.compile(r"(?<![\w*`])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\w*`])"), r"\1"),
    (re.compile(r"`+(?:__?(?!\w))?"), ""),
)


def plain(text: str) -> str:
    for markup, shown in _RENDERED:
        text = markup.sub(shown, text)
    return text


def plain_word(word: str) -> str:
    """A word without markup and punctuation around it; nothing if that is all it was."""
    if word.isalnum():
        return word
    return re.sub(r"^\W+|\W+$", "", plain(word))
