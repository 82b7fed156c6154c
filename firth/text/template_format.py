"""Messages → token ids by a chat template: what ChatFormat is for firth's own markers.

The answers are what the template has in {% generation %} blocks. Without them, an answer is what the text of the conversation up
to it has beyond the text up to where the assistant begins to write:

    answer k = render(messages 1 … k) − render(messages 1 … k − 1, answer_next)      up to the token that ends it

An answer is tokenised by itself, because that is how it is generated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers

from firth.errors import DataError
from firth.text.chat_template import ChatTemplate
from firth.text.conversation import ChatFormat, Message, Rendered
from firth.text.tokenizers.special_tokens import EOS, Ids
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tool_format import ToolFormat

_HIDING = "\ufdd2"  # within a special token that a user typed; Unicode reserves it for use within a program
_PROBE = (Message("user", "a"), Message("assistant", "b"))


class TemplateFormat(ChatFormat):
    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, special: Mapping[str, int]) -> None:
        """`special`: strings of the template that are one token each."""
        self.tokenizer, self.template, self.special = tokenizer, template, dict(special)
        names = sorted(self.special, key=len, reverse=True)
        self._any_special = re.compile("|".join(map(re.escape, names)) if names else r"(?!)")
        self._end_name = self._found_end()
        self.end = self.special[self._end_name]

    def render(self, messages: Sequence[Message]) -> Rendered:
        """The whole conversation. The answers are learned, each with the token that ends it."""
        text, spans = self._answers([self._safe(message) for message in messages])
        parts, learned, before = [], [], 0
        for start, end in [*spans, (len(text), len(text))]:
            for piece, own in ((text[before:start], False), (text[start:end], True)):
                ids = self.encode(piece)
                parts.append(ids)
                learned.append(np.full(len(ids), own))
            before = end
        return Rendered(np.concatenate(parts).astype(self.tokenizer.dtype), np.concatenate(learned))

    def prompt(self, messages: Sequence[Message]) -> Ids:
        return self.encode(self.template.render([self._safe(one) for one in messages], answer_next=True))

    def _answers(self, messages: Sequence[Message]) -> tuple[str, list[tuple[int, int]]]:
        if self.template.marks_answers:
            return self.template.marked_answers(messages)
        places = [place for place, message in enumerate(messages) if message.role == "assistant"]
        around = [((messages[:place], True), (messages[: place + 1], False)) for place in places]
        text, *parts = self.template.render_all([(messages, False), *(one for pair in around for one in pair)])
        spans = []
        for before, after in zip(parts[::2], parts[1::2], strict=True):
            if not after.startswith(before) or not text.startswith(after):
                raise DataError(
                    "the chat template changes earlier messages when later ones follow, so the answers cannot be located. Put "
                    "{% generation %} and {% endgeneration %} around them in the template."
                )
            spans.append((len(before), self._cut(text, len(before), len(after))))
        return text, spans

    def _cut(self, text: str, start: int, end: int) -> int:
        """The end of the last end token of an answer; a newline after it is not the assistant's."""
        name = getattr(self, "_end_name", None)
        place = -1 if name is None else text.rfind(name, start, end)
        return end if place < 0 or name is None else place + len(name)

    def _found_end(self) -> str:
        """The first special token after an answer."""
        text, spans = self._answers(_PROBE)
        start, end = spans[0] if spans else (0, len(text))
        behind = text[text.find(_PROBE[1].content, start, end) + 1 :]
        match = self._any_special.search(behind)
        if match is None:
            raise DataError(
                "the chat template puts no special token after an answer, so it would never end. List the token that ends it in "
                "objective.special_tokens."
            )
        return match.group()

    @cached_property
    def tools(self) -> ToolFormat:
        """The format of tool calls; raises a DataError if the template does not support tools."""
        return ToolFormat(self)

    def safe_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A special token that a user types, or that a tool returns, is text."""
        foreign = message["role"] in ("user", "tool") and isinstance(message["content"], str)
        return {**message, "content": self._hidden(message["content"])} if foreign else message

    def without_special(self, text: str, but: Collection[str]) -> str:
        """The text without special tokens, except `but` these."""
        return self._any_special.sub(lambda match: match.group() if match.group() in but else "", text)

    def _safe(self, message: Message) -> Message:
        """A special token that a user types is text."""
        return message if message.role != "user" else Message(message.role, self._hidden(message.content))

    def _hidden(self, text: str) -> str:
        return self._any_special.sub(lambda match: match.group()[0] + _HIDING + match.group()[1:], text.replace(_HIDING, ""))

    def encode(self, text: str) -> Ids:
        parts: list[Ids] = []
        before = 0
        for match in self._any_special.finditer(text):
            parts += [self._content(text[before : match.start()]), np.array([self.special[match.group()]])]
            before = match.end()
        parts.append(self._content(text[before:]))
        return np.concatenate(parts).astype(self.tokenizer.dtype)

    def _content(self, text: str) -> Ids:
        """An imported tokenizer finds special tokens in any text, so what a user typed stays in two pieces there."""
        pieces = text.split(_HIDING) if self.tokenizer.kind == "imported" else [text.replace(_HIDING, "")]
        parts = [self.tokenizer.encode(piece) for piece in pieces if piece]
        return np.concatenate(parts) if parts else np.empty(0, self.tokenizer.dtype)


def special_tokens(tokenizer: Tokenizer, names: Sequence[str] = ()) -> dict[str, int]:
    """The special tokens of a tokenizer: those that tokenizer.json adds to the vocabulary, <eos>, and the entries `names`."""
    own = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    id_of = {one["content"]: one["id"] for one in json.loads(tokenizer.to_json()).get("added_tokens") or []}
    if tokenizer.eos is not None:
        id_of.setdefault(EOS, tokenizer.eos)
    for name in names:
        if (id := own.token_to_id(name)) is None:
            raise DataError(
                f'"{name}" of objective.special_tokens is not in the vocabulary. Remove it, or train a new tokenizer.'
            )
        id_of[name] = id
    return id_of
