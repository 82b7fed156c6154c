"""Chat templates: Jinja templates that format conversations for a family of models (`chat_template` in tokenizer_config.json).

A template is untrusted code. It runs in Jinja's sandbox, without access to Python objects and files, in a process with limits of
its own (`template_process`), and its output may have 4 times the characters of the messages plus SPARE. As in Hugging Face, it
can use messages, tools, add_generation_prompt, bos_token, eos_token, raise_exception, strftime_now, and blocks
{% generation %} … {% endgeneration %} around the assistant's messages.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.text import template_process
from firth.text.conversation import Message
from firth.text.template_frames import BEGIN, END

LONGEST = SPARE = 500_000  # characters of a template, and those that it may add to a conversation
_AT_ONCE, _CHARACTERS = 16, 1_000_000  # texts of a request, and what they may be given in all
# firth's own markers, as ChatFormat writes them
MARKER_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
_MARKS = str.maketrans("", "", BEGIN + END)


@dataclass(frozen=True)
class ChatTemplate:
    source: str
    bos_token: str = ""
    eos_token: str = ""
    tools_source: str = ""  # of a template for conversations with tools, where a model has one besides

    def __post_init__(self) -> None:
        _facts(self.source)  # an error now

    @functools.cached_property
    def for_tools(self) -> ChatTemplate:
        return ChatTemplate(self.tools_source, self.bos_token, self.eos_token) if self.tools_source else self

    def render(self, messages: Iterable[Message], *, answer_next: bool = False) -> str:
        """The conversation as text; with `answer_next`, up to where the assistant begins to write."""
        return self.render_all([(messages, answer_next)])[0]

    def render_all(self, conversations: Iterable[tuple[Iterable[Message], bool]]) -> list[str]:
        """The texts of several conversations, each with a flag whether an answer comes next."""
        return [text.translate(_MARKS) for text in self._written(conversations)]

    def render_with_tools(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], *, answer_next: bool
    ) -> str:
        """`messages` and `tools` as Hugging Face's templates expect them."""
        try:
            given = self._variables(_without_marks(messages), answer_next, _without_marks(tools) or None)
            [text] = self._asked([given], [_characters(given)])
        except RecursionError as error:
            raise DataError("the tools or their arguments are nested too deeply. Simplify them.") from error
        return text.translate(_MARKS)

    def marked_answers(self, messages: Iterable[Message]) -> tuple[str, list[tuple[int, int]]]:
        """The conversation as text, and where it has what stands in {% generation %} blocks: start and end of each."""
        [written] = self._written([(messages, False)])
        parts, text, spans = written.split(BEGIN), "", []
        for number, part in enumerate(parts):
            inside, _, after = part.partition(END) if number else ("", "", part)
            if number:
                spans.append((len(text), len(text) + len(inside)))
            text += inside + after.translate(_MARKS)
        return text, spans

    @property
    def marks_answers(self) -> bool:
        """True if it has {% generation %} blocks."""
        return _facts(self.source)["marks_answers"]

    def _written(self, conversations: Iterable[tuple[Iterable[Message], bool]]) -> list[str]:
        given, sizes, texts = [], [], []
        for messages, answer_next in conversations:
            plain = [{"role": one.role, "content": one.content.translate(_MARKS)} for one in messages]
            given.append(self._variables(plain, answer_next))
            sizes.append(sum(len(message["content"]) for message in plain))
            if len(given) == _AT_ONCE or sum(sizes) > _CHARACTERS:
                texts += self._asked(given, sizes)
                given, sizes = [], []
        return texts + (self._asked(given, sizes) if given else [])

    def _variables(self, messages: Any, answer_next: bool, tools: Any = None) -> dict[str, Any]:
        return {
            "messages": messages,
            "add_generation_prompt": answer_next,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            "tools": tools,
            "documents": None,
        }

    def _asked(self, given: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[str]:
        longest = [SPARE + 4 * size for size in sizes]
        answer = template_process.ask({"source": self.source, "given": given, "longest": longest})
        _expect_valid(answer)
        if "refused" in answer:
            raise DataError(f"the chat template refuses this conversation: {answer['refused']}")
        texts: list[str] = answer["texts"]
        return texts


def _without_marks(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_MARKS)
    if isinstance(value, Mapping):
        return {_without_marks(name): _without_marks(one) for name, one in value.items()}
    return [_without_marks(one) for one in value] if isinstance(value, list | tuple) else value


def _characters(value: Any) -> int:
    """The number of characters in all strings of a table or list."""
    if isinstance(value, str):
        return len(value)
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return sum(map(_characters, parts))


@functools.lru_cache(maxsize=64)
def _facts(source: str) -> dict[str, bool]:
    """Facts about a template, which is compiled to find them."""
    if len(source) > LONGEST:
        raise DataError(f"the chat template has {len(source):,} characters; the limit is {LONGEST:,}. Shorten it.")
    answer = template_process.ask({"source": source})
    _expect_valid(answer)
    facts: dict[str, bool] = answer["facts"]
    return facts


def _expect_valid(answer: Mapping[str, Any]) -> None:
    if "stopped" in answer:
        raise DataError(f"the chat template was stopped: {answer['stopped']}. Correct it.")
    if "invalid" in answer:
        raise DataError(f"the chat template is not valid Jinja: {answer['invalid']}. Correct it.")


def read_template(path: Path) -> ChatTemplate:
    """The template in a .jinja file, or in a tokenizer_config.json with the tokens it uses."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return ChatTemplate(text)
        table = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the chat template in {path}: {error}") from error
    if not isinstance(table, dict):
        raise DataError(f'{path} is not a table with a "chat_template"')
    return template_of(table, str(path))


def template_of(table: Mapping[str, Any], where: str) -> ChatTemplate:
    """The template of a tokenizer_config.json. Of several named ones, "default" is taken, and "tool_use" for tools."""
    template, for_tools = table.get("chat_template"), None
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template, for_tools = named.get("default"), named.get("tool_use")
    if not isinstance(template, str):
        raise DataError(f'{where} has no "chat_template"; expected a Jinja template')
    bos, eos = (_token(table.get(name)) for name in ("bos_token", "eos_token"))
    return ChatTemplate(template, bos, eos, for_tools if isinstance(for_tools, str) else "")


def _token(given: Any) -> str:
    """A token is its text, or a table with it as "content"."""
    return str(given.get("content", "")) if isinstance(given, dict) else str(given or "")
