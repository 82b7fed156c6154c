"""Writes the reference parts of docs/python.md from the docstrings, and docs/commands.md from the verbs.

In docs/python.md, `<!-- reference: firth.train -->` begins a part and `<!-- /reference -->` ends it; the members of a class to
describe follow its name after a colon. What stands between the parts, the examples above all, is written by hand. A sentence of
a docstring that mentions a parameter in backticks becomes its row of the table; the first sentence stays where it is.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

import firth.cli.verbs  # noqa: F401  (registers them)
from firth import vectors
from firth.cli.app import app
from firth.vectors.config import VectorsConfig

sys.path.insert(0, str(Path(__file__).parent))
from make_settings import meanings as meanings_of

DOCS = Path(__file__).resolve().parent
PYTHON, COMMANDS = DOCS / "python.md", DOCS / "commands.md"
PART = re.compile(r"<!-- reference: (?P<name>[\w.]+)(?:: (?P<members>[\w, \n]+))? -->\n(?P<text>.*?)<!-- /reference -->", re.S)
WIDTH = 110
# Arguments that mean the same everywhere; a docstring that mentions one has its own meaning.
FUNCTION = "A function `progress(what, done, total)`, called while the work goes on."
COMMON = {
    "settings": "Settings of [`[decoding]`](recipes.md#decoding): `tokens`, `temperature`, `seed`, `beam`, … "
    "Those that are not given come from the recipe.",
    "progress": "`True` shows a progress bar if the work takes more than two seconds, `False` shows none; "
    "a function `progress(what, done, total)` is called instead.",
    "config": "A `DecodingConfig`, such as `run.recipe.decoding`, the recipe's [`[decoding]`](recipes.md#decoding).",
    **dict.fromkeys(("beam", "penalty", "tokens"), "As in [`[decoding]`](recipes.md#decoding); by default the recipe's."),
    "path": "Data to evaluate on; by default the run's own.",
    "split": 'Part of the run\'s own data: "test", "valid" or "train"; by default the first of these that it has.',
    "device": '"cpu", "cuda", "mps", or "auto": a GPU if there is one.',
    "layer": "0 is the embedding, 1 … depth the output of that layer; negative numbers count from the end.",
    "topn": "The number of words to return.",
    "restrict_vocab": "Search only this many of the first words.",
    "lower": "Convert the text to lower case.",
    "strip_punctuation": "Remove punctuation and symbols, except inside words.",
    "format": "The format of the files: txt, jsonl, csv, tsv or parquet; auto uses the file name.",
    "field": "The JSON key or column that holds the text.",
}


def python_page(page: str) -> str:
    """The page with its reference parts written anew."""

    def written(part: re.Match[str]) -> str:
        head = part[0].partition("-->")[0] + "-->"
        members = re.findall(r"\w+", part["members"] or "")
        return f"{head}\n\n{reference(part['name'], members)}\n\n<!-- /reference -->"

    return PART.sub(written, page)


def reference(name: str, members: Sequence[str]) -> str:
    """The part about a function, or about a class and some of its members."""
    thing = found(name)
    if not inspect.isclass(thing):
        return "\n\n".join(of_function(name.rpartition(".")[2], thing))
    parts = [wrapped(prose(documented(thing)))]
    if dataclasses.is_dataclass(thing) and not members:
        parts.append(fields(thing))
    for member in members:
        parts += [f"#### `{thing.__name__}.{member}`", *of_member(thing, member)]
    return "\n\n".join(parts)


def fields(config: type) -> str:
    """The fields of a record, with the comments on them."""
    said = meanings_of(config)
    rows = [f"| `{one.name}: {one.type}` | {cell(said[one.name], '')} |" for one in dataclasses.fields(config)]
    return "\n".join(["| field | meaning |", "| --- | --- |", *rows]).replace(" | None` |", r" \| None` |")


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
    forms, settings = [function], meanings_of(VectorsConfig) if function is vectors.train else {}
    if any(one.kind is one.VAR_KEYWORD and one.annotation == "Any" for one in inspect.signature(function).parameters.values()):
        forms = list(typing.get_overloads(function)) or forms
    names = [one for form in forms for one in inspect.signature(form).parameters if one not in ("self", "cls")]
    if missing := [one for one in names if f"`{one}`" not in text and one not in (COMMON | settings)]:
        raise SystemExit(f"the docstring of {function.__qualname__} does not mention {', '.join(missing)}")
    known = COMMON | settings | ({"progress": FUNCTION} if annotation(function, "progress") == "Progress" else {})
    meanings = {one: meaning for one in names if (meaning := about(one, text, known))}
    told = {sentence for meaning in meanings.values() for sentence in meaning}
    parts = [fenced("\n".join(signature(name, form) for form in forms)), wrapped(prose(text, told))]
    if meanings:
        alike: dict[str, list[str]] = {}
        for one, meaning in meanings.items():
            alike.setdefault(" ".join(meaning), []).append(one)
        rows = [f"| {', '.join(f'`{one}`' for one in same)} | {cell(meaning, same[0])} |" for meaning, same in alike.items()]
        parts.append("\n".join(["| parameter | meaning |", "| --- | --- |", *rows]))
    returned = inspect.signature(forms[0]).return_annotation
    if len(forms) == 1 and returned not in ("None", inspect.Signature.empty):
        parts.append(f"Returns `{returned}`.")
    return parts


def annotation(function: Callable[..., Any], name: str) -> str:
    found = inspect.signature(function).parameters.get(name)
    return "" if found is None else str(found.annotation)


def about(name: str, text: str, known: Mapping[str, str]) -> list[str]:
    """The sentences about a parameter: those that mention it, without the first one of the docstring."""
    own = [sentence for sentence in sentences(text)[1:] if f"`{name}`" in sentence]
    return own or ([known[name]] if name in known and f"`{name}`" not in text else [])


def sentences(text: str) -> list[str]:
    """The sentences of the paragraphs of a docstring; equations are left out."""
    plain = [" ".join(part.split()) for part in paragraphs(text) if not part.startswith("    ")]
    return [one for part in plain for one in re.split(r'(?<!al\.)(?<!eq\.)(?:(?<=[.!?])|(?<=\.["”`)])) (?=[A-Z0-9`"“(])', part)]


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
    own = text.removeprefix(f"`{name}`: ")
    text = own if own == text else own[0].upper() + own[1:]
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
        return str(default.__name__) if default.__name__.isidentifier() and default.__name__[0] != "_" else "..."
    return json.dumps(default, ensure_ascii=False) if isinstance(default, str) else repr(default)


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
