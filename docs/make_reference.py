"""Writes the reference parts of docs/python.md from the docstrings, and docs/commands.md from the verbs.

In docs/python.md, `<!-- reference: firth.train -->` begins a part and `<!-- /reference -->` ends it; names of members follow the
name of a class after a colon. What stands between the parts, the examples above all, is written by hand.

python docs/make_reference.py
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

import firth.cli.verbs  # noqa: F401  (registers them)
from firth.cli.app import app

DOCS = Path(__file__).resolve().parent
PYTHON, COMMANDS = DOCS / "python.md", DOCS / "commands.md"
PART = re.compile(r"<!-- reference: (?P<name>[\w.]+)(?:: (?P<members>[\w, \n]+))? -->\n(?P<text>.*?)<!-- /reference -->", re.S)
WIDTH = 110
# Arguments that mean the same everywhere; a docstring that mentions one has its own meaning.
COMMON = {
    "progress": "`True` shows a progress bar if the work takes more than two seconds, `False` shows none; "
    "a function `progress(what, done, total)` is called instead.",
}


def python_page(page: str) -> str:
    """The page with its reference parts written anew."""

    def written(part: re.Match[str]) -> str:
        head = part[0].partition("-->")[0] + "-->"
        members = re.findall(r"\w+", part["members"] or "")
        return f"{head}\n{reference(part['name'], members)}\n<!-- /reference -->"

    return PART.sub(written, page)


def reference(name: str, members: Sequence[str]) -> str:
    """The part about a function, or about a class and some of its members."""
    thing = found(name)
    shown = inspect.unwrap(thing) if inspect.isfunction(thing) else thing
    if not inspect.isclass(shown):
        return "\n\n".join(of_function(name.rpartition(".")[2], shown))
    parts = [wrapped(prose(documented(shown)))]
    for member in members:
        parts.append(f"#### `{shown.__name__}.{member}`")
        parts += of_member(shown, member)
    return "\n\n".join(parts)


def found(name: str) -> Any:
    """What a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented(thing: Any) -> str:
    text = inspect.getdoc(thing)
    if not text:
        raise SystemExit(f"{thing} has no docstring")
    return text


def of_member(owner: type, name: str) -> list[str]:
    member = inspect.getattr_static(owner, name)
    if not inspect.isfunction(member):
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        if getter is None:  # a field of a class, described by its comment
            raise SystemExit(f"{owner.__name__}.{name} is neither a method nor a property")
        shown = f"{name}: {inspect.signature(getter).return_annotation}"
        return [fenced(shown), wrapped(prose(documented(getter)))]
    return of_function(name, inspect.unwrap(member), inherited(owner, name))


def inherited(owner: type, name: str) -> str:
    """The docstring of a method, or that of the method that it overrides."""
    return next(text for base in owner.__mro__ if name in vars(base) and (text := inspect.getdoc(vars(base)[name])))


def of_function(name: str, function: Callable[..., Any], text: str = "") -> list[str]:
    """Signatures, description, parameters and what is returned."""
    text = text or documented(function)
    forms = [function]
    if any(one.kind is one.VAR_KEYWORD and one.annotation == "Any" for one in inspect.signature(function).parameters.values()):
        forms = list(typing.get_overloads(function)) or forms
    meanings = parameters(forms, text)
    missing = [one for one, meaning in meanings.items() if not meaning]
    if missing:
        raise SystemExit(f"the docstring of {function.__qualname__} has no sentence about {', '.join(missing)}")
    told = {sentence for meaning in meanings.values() for sentence in meaning}
    parts = [fenced("\n".join(signature(name, form) for form in forms)), wrapped(prose(text, told))]
    if meanings:
        rows = [f"| `{one}` | {cell(' '.join(meaning), one)} |" for one, meaning in meanings.items()]
        parts.append("\n".join(["| parameter | meaning |", "| --- | --- |", *rows]))
    returned = inspect.signature(forms[0]).return_annotation
    if len(forms) == 1 and returned not in ("None", inspect.Signature.empty):
        parts.append(f"Returns `{returned}`.")
    return parts


def parameters(forms: Sequence[Callable[..., Any]], text: str) -> dict[str, list[str]]:
    """The sentences about each parameter: those that mention it, without the first one of the docstring."""
    names = dict.fromkeys(one for form in forms for one in inspect.signature(form).parameters if one not in ("self", "cls"))
    rest = sentences(text)[1:]
    meanings = {name: [sentence for sentence in rest if f"`{name}`" in sentence] for name in names}
    common = {name: [COMMON[name]] for name in names if name in COMMON and not meanings[name]}
    return meanings | common


def sentences(text: str) -> list[str]:
    """The sentences of the paragraphs of a docstring; equations are left out."""
    plain = [" ".join(part.split()) for part in paragraphs(text) if not part.startswith("    ")]
    return [one for part in plain for one in re.split(r'(?<=[.!?:”"`)])(?<=[.!?]|\.[”"`)]) (?=[A-Z0-9`"“(])', part)]


def paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.rstrip()) if part.strip()]


def prose(text: str, told: Sequence[str] | set[str] = ()) -> str:
    """A docstring without the sentences that stand in the table of parameters; equations as they are."""
    kept = []
    for part in paragraphs(text):
        if part.startswith("    "):
            kept.append(f"```text\n{textwrap.dedent(part)}\n```")
        elif left := [one for one in sentences(part) if one not in told]:
            kept.append(" ".join(left))
    return "\n\n".join(kept)


def wrapped(text: str) -> str:
    """Paragraphs in lines of WIDTH columns; fences as they are."""
    return "\n\n".join(
        part if part.startswith("```") else escaped(textwrap.fill(part, WIDTH, break_long_words=False, break_on_hyphens=False))
        for part in text.split("\n\n")
    )


def escaped(text: str) -> str:
    """Markdown would read <eos> as HTML, and x_t … h_t as emphasis."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"<(\w+)>", r"`<\1>`", part) for part in parts)


def cell(text: str, name: str) -> str:
    """The sentences about a parameter in a cell of its row, which already says its name."""
    text = text.removeprefix(f"`{name}`: ")
    return escaped(text).replace("|", r"\|")


def fenced(text: str) -> str:
    return f"```pyi\n{text}\n```"


def signature(name: str, function: Callable[..., Any]) -> str:
    """`def name(…) -> …`, on one line or with one line per parameter."""
    found = inspect.signature(function)
    shown, starred = [], False
    for one in found.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f" = {value(one.default)}"
        shown.append(f"{mark}{one.name}: {one.annotation}{default}" if one.annotation is not one.empty else one.name)
    returned = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    line = f"def {name}({', '.join(shown)}){returned}"
    return line if len(line) <= WIDTH else f"def {name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){returned}"


def value(default: Any) -> str:
    if inspect.isfunction(default) or inspect.isclass(default):
        return str(default.__name__)
    return str(default.name) if isinstance(default, enum.Enum) else repr(default)


# The verbs


def commands_page() -> str:
    intro = (
        "Every verb of `firth`, with the text of its `--help`. Results go to stdout, progress and notes to stderr. "
        "The exit code is 0, or 1 if the run itself failed, or 2 if the command has a mistake. "
        "`--use FILE` and `--debug` may appear anywhere."
    )
    note = "<!-- written by docs/make_reference.py; edit the help texts in firth/cli instead -->"
    head = ["# Command-line reference", note, wrapped(intro)]
    return "\n\n".join([*head, *(part for verb in verbs(typer.main.get_command(app), "firth") for part in verb)]) + "\n"


def verbs(command: Any, name: str) -> Iterator[list[str]]:
    """The parts about a verb, or about a group and all verbs in it."""
    yield list(of_verb(command, name))
    for inner, one in sorted(getattr(command, "commands", {}).items()):
        if not one.hidden:
            yield from verbs(one, f"{name} {inner}")


def of_verb(command: Any, name: str) -> Iterator[str]:
    if name != "firth":
        yield f"{'##' if name.count(' ') == 1 else '###'} `{name}`"
    context = typer.Context(command, info_name=name)
    given = [one for one in command.get_params(context) if "--help" not in one.opts]
    arguments = [one for one in given if one.param_type_name == "argument"]
    usage = [name, *map(argument, arguments), *(["[OPTIONS]"] if len(given) > len(arguments) else [])]
    yield f"```text\n{' '.join(usage)}{' VERB …' if hasattr(command, 'commands') else ''}\n```"
    if command.help:
        yield wrapped("\n\n".join(" ".join(part.split()) for part in paragraphs(inspect.cleandoc(command.help))))
    records = [(one, record) for one in given if (record := one.get_help_record(context))]
    if records:
        rows = [f"| `{option(one, left)}` | {cell(said(right), '')} |" for one, (left, right) in records]
        yield "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])


def argument(one: Any) -> str:
    """A positional argument in the line of usage."""
    name = one.name.upper() + ("..." if one.nargs == -1 else "")
    return name if one.required else f"[{name}]"


def option(one: Any, shown: str) -> str:
    """An argument, or an option with the type of its value: "--steps INT"."""
    if one.param_type_name == "argument":
        return str(one.name.upper())
    return re.sub(r"<(\w+)[^>]*>", lambda kind: kind[1].upper(), " ".join(shown.split()))


def said(text: str) -> str:
    """A help text; values in [default: …] and the like are code."""
    text = " ".join(text.split())
    return re.sub(r"<(?!\w+>)", r"\\<", text).replace("*", r"\*").replace("_", r"\_")


def main() -> None:
    PYTHON.write_text(python_page(PYTHON.read_text(encoding="utf-8")), encoding="utf-8")
    COMMANDS.write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
