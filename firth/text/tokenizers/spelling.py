"""The bytes that each token adds to a text, and the texts that a vocabulary can spell: for constraints on what is generated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Spelling:
    """tokens[id]: the bytes that a token adds; b"" for tokens that a constrained text cannot have, such as <unk>.

    `texts` is a regular expression for everything that the tokens can spell; None: they can spell any text. `suffix` stands
    behind every token, and so behind every text: of words, the space that separates them. `drops_space`: a space at the beginning
    of a text is not shown."""

    tokens: tuple[bytes, ...]
    texts: str | None = None
    suffix: str = ""
    drops_space: bool = False

    def lacks(self, characters: Iterable[str]) -> list[str]:
        """Those of the characters that no token spells alone; none where any text can be spelled."""
        if self.texts is None:
            return []
        known = {token.removeprefix(b" ") for token in self.tokens} | {b" "}
        return sorted({one for one in characters if one.encode() not in known})


def quoted(text: str) -> str:
    """A regular expression for this text alone."""
    return "".join(f"\\x{{{ord(one):X}}}" if not one.isalnum() or not one.isascii() else one for one in text)


def one_of(characters: Collection[str]) -> str:
    """A regular expression for one of these characters; for none, one that matches nothing."""
    return f"[{''.join(map(quoted, sorted(characters)))}]" if characters else "[^\\x{0}-\\x{10FFFF}]"


def spelled_by(tokens: Iterable[bytes]) -> str:
    """A regular expression for the texts that single characters spell, some of them with a space before them."""
    texts = {token.decode("utf-8", "replace") for token in tokens}
    first = {text[1] for text in texts if len(text) == 2 and text[0] == " "}
    alone = {text for text in texts if len(text) == 1} - {"\ufffd"}
    return f"({quoted(' ')}{one_of(first)}|{one_of(alone)})*"
