"""Chat templates: how a family of models writes a conversation, as a Jinja template (tokenizer_config.json's `chat_template`).

A template is a program that somebody else wrote. It runs in Jinja's sandbox, which keeps it from Python's objects and files, and
within limits: passes through loops and macros are counted and timed, and no string or list may be longer than LONGEST. It has
what Hugging Face's have: messages, add_generation_prompt, bos_token, eos_token, raise_exception, strftime_now, and blocks
{% generation %} … {% endgeneration %} around what the assistant writes.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from firth.errors import DataError
from firth.text.conversation import Message

PASSES = 100_000  # through loops and macros, for one conversation
SECONDS = 10.0  # for one conversation
LONGEST = 4_000_000  # characters of a string, or entries of a list
_WIDEST = 10_000  # a number given to a filter or a method: a width, an indentation, a count
# firth's own markers, as ChatFormat writes them
MARKER_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
_BEGIN, _END = "\ufdd0", "\ufdd1"  # around what the assistant writes; Unicode reserves them for use within a program
_MARKS = str.maketrans("", "", _BEGIN + _END)


class TooLarge(jinja2.TemplateError):
    """A template that does not come to an end, or builds something huge."""


class _Generation(Extension):
    """{% generation %} … {% endgeneration %}: its text, between marks that `render` takes out again."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return f"{_BEGIN}{caller()}{_END}"


class _Counted(NodeTransformer):
    """Every pass through a loop or a macro calls `_pass`, and `a ~ b` calls `_joined`."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        return self._counted(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._counted(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._counted(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("_joined", node.nodes, node.lineno)

    def _counted(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call("_pass", [], node.lineno)).set_lineno(node.lineno))
        found: nodes.Node = node
        return found


def _call(name: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
    call = nodes.Call(nodes.Name(name, "load"), arguments, [], None, None)
    call.set_lineno(line)
    return call


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.start()
        self.filters = {name: _limited(name, one) for name, one in self.filters.items()} | {"tojson": _to_json}
        self.globals |= {
            "raise_exception": _raise,
            "strftime_now": lambda format: datetime.now().strftime(format),
            "namespace": _Namespace,
            "_pass": self._pass,
            "_joined": lambda *parts: _short("".join(map(str, parts))),
        }
        for name in ("lipsum", "cycler", "joiner"):
            self.globals.pop(name, None)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Counted().visit(super()._parse(source, name, filename))  # type: ignore[no-any-return]

    def start(self) -> None:
        """The limits of the next conversation begin."""
        self.passes, self.deadline = 0, time.monotonic() + SECONDS

    def _pass(self) -> None:
        self.passes += 1
        if time.monotonic() > self.deadline:
            raise TooLarge(f"it takes longer than {SECONDS:g} seconds")
        if self.passes > PASSES:
            raise TooLarge(f"it passes through its loops more than {PASSES:,} times")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*" and any(isinstance(one, str | list | tuple) for one in (left, right)):
            times, what = (left, right) if isinstance(left, int) else (right, left)
            _short(range(max(0, times) * len(what)))
        if operator == "**" and isinstance(right, int | float) and abs(right) > 64:
            raise TooLarge(f"it raises a number to the power {right}")
        if operator == "%" and isinstance(left, str):
            raise TooLarge("it formats text with %, whose widths have no limit")
        return _short(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Jinja's own wrapper of str.format, which would hide the method from `call`."""
        if super().wrap_str_format(value) is None:
            return None
        _expect_narrow("format", ("",))
        raise AssertionError  # it is refused

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str):
            _expect_narrow(function.__name__, (owner, *args))
        return _short(super().call(context, function, *args, **kwargs))


class _Namespace(Namespace):
    """Without names that begin with an underscore, which lead to Python's own objects."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        for name in dict(*args[1:], **kwargs):
            _expect_public(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _expect_public(name)
        super().__setitem__(name, value)


def _expect_public(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot have the name {name!r}")


def _limited(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result are not too large; functools.wraps keeps what Jinja has noted on it."""

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        own = args[1:] if hasattr(function, "jinja_pass_arg") else args
        if name == "join" and own and not isinstance(own[0], str):
            own = (own[0] if isinstance(own[0], list | tuple) else list(own[0]), *own[1:])
            args = (*args[: len(args) - len(own)], *own)
            _short(range(sum(len(str(part)) + len(str(own[1] if len(own) > 1 else "")) for part in own[0])))
        _expect_narrow(name, (*own, *kwargs.values()))
        return _short(function(*args, **kwargs))

    return limited


def _expect_narrow(name: str, args: Sequence[Any]) -> None:
    """Widths and counts among the arguments of a string's method, or of a filter, are small, and what it builds is, too."""
    if any(isinstance(one, int) and abs(one) > _WIDEST for one in args[1:]):
        raise TooLarge(f"it gives {name} a number above {_WIDEST:,}")
    if name in ("format", "format_map"):
        raise TooLarge(f"it formats text with {name}, whose widths have no limit")
    texts = [one for one in args if isinstance(one, str)]
    if name == "replace" and len(texts) > 2:
        _short(range(len(texts[0]) + (texts[0].count(texts[1])) * len(texts[2])))
    if name in ("join", "translate") and len(args) > 1 and isinstance(args[1], list | tuple):
        _short(range(sum(len(str(part)) + len(str(args[0])) for part in args[1])))


def _short(value: Any) -> Any:
    if isinstance(value, str | list | tuple | range) and len(value) > LONGEST:
        raise TooLarge(f"it builds something longer than {LONGEST:,}")
    return value


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    _expect_narrow("tojson", (value, indent))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


@dataclass(frozen=True)
class ChatTemplate:
    source: str
    bos_token: str = ""
    eos_token: str = ""

    @functools.cached_property
    def _compiled(self) -> tuple[_Environment, jinja2.Template]:
        environment = _Environment()
        try:
            return environment, environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise DataError(f"the chat template is not valid Jinja: {error}. Correct it.") from error

    def __post_init__(self) -> None:
        _ = self._compiled  # an error now

    def render(self, messages: Iterable[Message], *, answer_next: bool = False) -> str:
        """The conversation as text; with `answer_next`, up to where the assistant begins to write."""
        return self._written(messages, answer_next).translate(_MARKS)

    def marked_answers(self, messages: Iterable[Message]) -> tuple[str, list[tuple[int, int]]]:
        """The conversation as text, and where it has what stands in {% generation %} blocks: start and end of each."""
        parts, text, spans = self._written(messages, False).split(_BEGIN), "", []
        for number, part in enumerate(parts):
            inside, _, after = part.partition(_END) if number else ("", "", part)
            if number:
                spans.append((len(text), len(text) + len(inside)))
            text += inside + after.translate(_MARKS)
        return text, spans

    @property
    def marks_answers(self) -> bool:
        """Whether it has {% generation %} blocks."""
        return any(True for _ in _generation_blocks(self.source))

    def _written(self, messages: Iterable[Message], answer_next: bool) -> str:
        environment, template = self._compiled
        environment.start()
        given = [{"role": one.role, "content": one.content.translate(_MARKS)} for one in messages]
        pieces, length = [], 0
        try:
            for piece in template.generate(
                messages=given,
                add_generation_prompt=answer_next,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
                tools=None,
                documents=None,
            ):
                pieces.append(piece)
                length += len(piece)
                _short(range(length))
        except TooLarge as error:
            raise DataError(f"the chat template was stopped: {error}. Correct it.") from error
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"the chat template refuses this conversation: {error}") from error
        return "".join(pieces)


def _generation_blocks(source: str) -> Iterable[object]:
    tokens = jinja2.Environment().lex(source)
    return (token for token in tokens if token[1] == "name" and token[2] == "generation")


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
    """The template of a tokenizer_config.json. Of several named ones, "default" is taken."""
    found = table.get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    if not isinstance(found, str):
        raise DataError(f'{where} has no "chat_template"; expected a Jinja template')
    return ChatTemplate(found, *(_token(table.get(name)) for name in ("bos_token", "eos_token")))


def _token(given: Any) -> str:
    """A token is its text, or a table with it as "content"."""
    return str(given.get("content", "")) if isinstance(given, dict) else str(given or "")
