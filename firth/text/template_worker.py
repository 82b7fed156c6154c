"""The process that runs chat templates. It imports only `template_frames` from firth, so that it starts quickly.

It reads requests from standard input and writes one answer to each to standard output. Before the first request it gives up
everything a template never needs: memory beyond MEMORY, opening files and starting processes. A request may take
PROCESSOR_SECONDS. The process ends with its input.

A request has a "source". With "given", a list with the variables for each text, the answer has the "texts"; without it, "facts"
about the template. The answer is "invalid" if the template is not Jinja, "refused" if it raises, and "stopped" if it exceeds a
limit.
"""

from __future__ import annotations

import contextlib
import html  # noqa: F401 (what Jinja imports at its first use: later, no file can be opened)
import json
import mmap
import os
import pprint  # noqa: F401
import signal
import sys
import textwrap  # noqa: F401
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
import jinja2.constants
import jinja2.debug
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from firth.text.template_frames import BEGIN, END, MEMORY, PROCESSOR_SECONDS, parse_frame, read_frame, write_frame

_KEPT = 32  # compiled templates
_SAID = 300  # characters of an error


def main() -> None:
    requests, answers, templates, memory = sys.stdin.buffer, sys.stdout.buffer, _Templates(), _Memory()
    _warm_up(templates)
    write_frame(answers, {"limits": _limit(), "memory_is_limited": _memory_is_limited()})
    last = False
    while not last and (body := read_frame(requests)) is not None:
        _clock(PROCESSOR_SECONDS)
        try:
            answer = _answer(templates, parse_frame(body))
            last = memory.resident() > MEMORY // 2  # the next template gets a fresh process
        except MemoryError:
            answer, last = {"stopped": f"it needs more than {MEMORY >> 20} MB of memory"}, True
        except RecursionError as error:  # a table that is nested too deeply
            answer = {"refused": _said(error)}
        _clock(0)
        write_frame(answers, {**answer, "last": last})


def _answer(templates: _Templates, request: dict[str, Any]) -> dict[str, Any]:
    try:
        environment, template = templates.get(request["source"])
    except MemoryError:
        raise
    except Exception as error:  # among them RecursionError, and the SyntaxError of Python's own compiler
        return {"invalid": _said(error)}
    if "given" not in request:
        return {"facts": environment.facts}
    texts = []
    for variables, longest in zip(request["given"], request["longest"], strict=True):
        pieces, length = [], 0
        try:
            for piece in template.generate(**variables):
                pieces.append(piece)
                if (length := length + len(piece)) > longest:
                    return {"stopped": f"it writes more than {longest:,} characters"}
        except MemoryError:
            raise
        except Exception as error:
            return {"refused": _said(error)}
        texts.append("".join(pieces))
    return {"texts": texts}


def _said(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, OSError):
        return "it tries to open a file, which is not allowed"
    message = " ".join(str(error)[: 4 * _SAID].split())[:_SAID]
    printable = "".join(
        one if one.isprintable() else "?" for one in message
    )  # other control characters could affect the terminal
    return printable or type(error).__name__


class _Generation(Extension):
    """{% generation %} … {% endgeneration %}: puts marks around its text."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        assert isinstance(self.environment, _Environment)
        self.environment.facts["marks_answers"] = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return f"{BEGIN}{caller()}{END}"


class _Environment(ImmutableSandboxedEnvironment):
    """The environment of Hugging Face: filters, functions and white space. Nothing is computed before rendering."""

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], optimized=False)
        self.facts = {"marks_answers": False}
        self.filters["tojson"] = _to_json
        self.globals |= {
            "raise_exception": _raise,
            "strftime_now": lambda format: datetime.now().strftime(format),
            "namespace": _Namespace,
        }


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore, which lead to Python's own objects."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        for name in dict(*args[1:], **kwargs):
            _expect_public(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _expect_public(name)
        super().__setitem__(name, value)


def _expect_public(name: object) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace cannot have the name {name!r}")


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Like Jinja's own, but without escaping < and > for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _Templates:
    """The most recently used templates, compiled, each in an environment of its own."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, tuple[_Environment, jinja2.Template]] = OrderedDict()

    def get(self, source: str) -> tuple[_Environment, jinja2.Template]:
        if source not in self._compiled:
            environment = _Environment()
            self._compiled[source] = environment, environment.from_string(source)
            while len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(source)
        return self._compiled[source]


def _warm_up(templates: _Templates) -> None:
    """Render a first template: it is slower than later ones, and reads the time zone from a file."""
    source = "{{ strftime_now('%Y') }}{% for one in (1, 2) %}{{ one | string | trim }}{% endfor %}{{ raise_exception('') }}"
    _answer(templates, {"source": source, "given": [{}], "longest": [10]})


def _limit() -> dict[str, int]:
    """Set the limits of the process that the system supports."""
    try:
        import resource
    except ImportError:  # Windows
        return {}
    limits = {}
    for name, most in {"AS": MEMORY, "DATA": MEMORY, "NOFILE": 3, "NPROC": 0, "FSIZE": 0, "CORE": 0}.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(kind, (most, most))
            limits[name] = resource.getrlimit(kind)[1]
    return limits


def _memory_is_limited() -> bool:
    """True if the limit works: macOS accepts it but does not enforce it."""
    try:
        mmap.mmap(-1, MEMORY).close()
    except (OSError, ValueError, MemoryError):
        return True
    return False


def _clock(seconds: float) -> None:
    """Let the system end the process after this many seconds of processor time; 0: never. A template never waits, so processor
    time is a fair limit even on a busy machine."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


class _Memory:
    """Memory of this process on Linux; 0 on other systems."""

    def __init__(self) -> None:
        self._file = None
        with contextlib.suppress(OSError):
            self._file = os.open("/proc/self/statm", os.O_RDONLY)  # opened now, because later no file can be opened

    def resident(self) -> int:
        """Current memory in bytes. The peak would include the parent process, because Linux counts it from before exec."""
        if self._file is None:
            return 0
        return int(os.pread(self._file, 100, 0).split()[1]) * mmap.PAGESIZE


if __name__ == "__main__":
    main()
