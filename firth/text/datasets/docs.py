"""The built-in corpus: the documentation of the installed Python, numpy and torch.

Docstrings are read from the syntax tree: importing all of torch would take longer and run code.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from firth.progress import Progress, silent
from firth.text import cache, sealed

_SHORTEST = 200  # characters; below that a docstring is mostly a signature
_PRINTABLE = re.compile(r"[\n -~]*")
_SKIPPED = {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib2to3"}
_ADDERS = {"add_docstr", "add_newdoc", "_add_docstr"}  # how torch and numpy document C functions
# All of torch takes 17 s to parse; these folders hold most of its prose.
_TORCH = (".", "nn", "optim", "autograd", "utils/data", "distributions", "linalg", "fft", "special", "sparse")
_TORCH_DEEP = {"nn", "optim", "utils/data"}
_BETWEEN = "\n\n\n"  # separates docstrings; a docstring that contains this counts as two
_SUMMARY = re.compile(r"[A-Z].{18,118}\.")
_MAKER = 1  # raise when the same packages would give a different corpus


def docs_corpus(progress: Progress = silent) -> Path:
    """The corpus as a text file in the cache; the first use takes a few seconds to create it."""
    versions = _versions()
    key = hashlib.sha256(json.dumps([_MAKER, versions], sort_keys=True).encode()).hexdigest()[:16]
    path = cache.cache_folder() / f"docs-{key}.txt"
    if _whole(path):
        return path
    text = _assembled(progress)
    sealed.write_text(path, text)
    facts = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "characters": len(text), "versions": versions}
    cache.write_text(path.with_suffix(".json"), json.dumps(facts, indent=2) + "\n")
    return path


def docstring_summaries(progress: Progress = silent) -> Iterator[tuple[str, str]]:
    """(the rest, the first sentence) of each docstring that begins with a sentence on a line of its own, which by convention
    summarises the rest."""
    text = docs_corpus(progress).read_text(encoding="utf-8")
    for one in text.rstrip("\n").split(_BETWEEN):
        first, _, rest = one.partition("\n\n")
        if rest and _SUMMARY.fullmatch(first):
            yield " ".join(rest.split()), first


def _whole(path: Path) -> bool:
    try:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return sealed.whole(path, str(facts["sha256"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("numpy", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    return versions


def _assembled(progress: Progress) -> str:
    """Sorted by hash, so that every part of the corpus, its held-out end included, is the same mixture."""
    sources = sorted(_sources())
    texts = set(_topics())
    for done, path in enumerate(sources):
        if done % 50 == 0:
            progress("collecting documentation", done, len(sources))
        texts.update(_docstrings(path))
    progress("collecting documentation", len(sources), len(sources))
    return _BETWEEN.join(sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())) + "\n"


def _sources() -> Iterator[Path]:
    yield from _python_files(Path(sysconfig.get_path("stdlib")), deep=True)
    for folder in _package("numpy"):
        yield from _python_files(folder, deep=True)
    for folder in _package("torch"):
        for inside in _TORCH:
            yield from _python_files(folder / inside, deep=inside in _TORCH_DEEP)


def _package(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)  # finds a top-level package without importing it
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def _python_files(folder: Path, *, deep: bool) -> Iterator[Path]:
    for path in folder.rglob("*.py") if deep else folder.glob("*.py"):
        if not _SKIPPED.intersection(path.relative_to(folder).parts):
            yield path


def _topics() -> Iterator[str]:
    from pydoc_data.topics import topics

    for text in topics.values():
        yield from _kept(text)


def _docstrings(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the standard library has its own invalid escapes
            source = path.read_bytes()
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # some files of the standard library are templates, or deliberately invalid
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _kept(ast.get_docstring(node, clean=False) or "")
    if any(adder.encode() in source for adder in _ADDERS):
        yield from _added(tree)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Not ast.walk: expressions contain no docstrings, and traversing them takes longer than parsing."""
    yield node
    for inside in ("body", "orelse", "finalbody", "handlers"):
        held = getattr(node, inside, None)
        for child in held if isinstance(held, list) else ():
            yield from _statements(child)


def _added(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in _ADDERS:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield from _kept(inner.value)


def _kept(raw: str) -> Iterator[str]:
    """The text without indentation and trailing spaces, if it is plain ASCII and long enough."""
    text = "\n".join(line.rstrip() for line in inspect.cleandoc(raw).splitlines()).strip("\n")
    if len(text) >= _SHORTEST and _PRINTABLE.fullmatch(text):
        yield text
