"""Tagged sentences that need no download: lines of the standard library's source, with the role of each token.

Python's own `tokenize` distinguishes names, operators, numbers and strings. Names are further distinguished by their context, so
the same word can have several tags:  def copy(self): self.copy = copy(copy=copy)  has a function, an attribute, a call, an
argument and a name.
"""

from __future__ import annotations

import hashlib
import keyword
import platform
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path

from firth.files import write_text
from firth.progress import Progress, silent
from firth.text import cache, sealed

Line = list[tuple[str, str]]  # tokens and their tags

NAMES = ("argument", "attribute", "call", "class", "function", "keyword", "name")  # the tags of tokens spelled like names
_SKIPPED = {"test", "tests", "idle_test", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__", "pydoc_data"}
_PASSED_OVER = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
_MOST = 40  # tokens of a line; longer ones are tables of data
_MOST_LINES = 300  # of a file, so that no file dominates the text
WORDS = {"train": 60_000, "valid": 5_000, "test": 10_000}
_MAKER = 1  # raise when the same version of Python would give other files


def cached_parts(progress: Progress = silent) -> dict[str, Path]:
    """The CoNLL files of the three parts, in the cache; the first use takes a second to create them."""
    folder = cache.cache_folder()
    paths = {part: folder / f"python-source-{platform.python_version()}-{_MAKER}-{part}.conll" for part in WORDS}
    if not all(sealed.whole(path) for path in paths.values()):
        write_parts(paths, write=sealed.write_text)
    return paths


def write_parts(
    paths: Mapping[str, Path], words: Mapping[str, int] = WORDS, write: Callable[[Path, str], None] = write_text
) -> None:
    """Write CoNLL files of the parts train, valid and test, each from different source files."""
    for path, lines in zip(paths.values(), source_lines(*(words[part] for part in paths)), strict=True):
        write(path, "\n".join(map(_conll, lines)))


def _conll(line: Line) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in line)


def source_lines(*words: int) -> list[list[Line]]:
    """For each of `words`, a list of lines with at least that many tokens. The lists use different files, in the order of the
    hashes of their names."""
    files = iter(_files())
    return [list(_lines(files, count)) for count in words]


def _lines(files: Iterator[Path], words: int) -> Iterator[Line]:
    taken = 0
    while taken < words and (path := next(files, None)):
        for line in islice(tagged_lines(path.read_bytes()), _MOST_LINES):
            yield line
            taken += len(line)


def tagged_lines(source: bytes) -> Iterator[Line]:
    """The logical lines of a file without comments, up to the first syntax error."""
    line: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.tokenize(BytesIO(source).readline):
            if token.type == tokenize.NEWLINE:
                if len(line) <= _MOST:
                    yield _tagged(line)
                line = []
            elif token.type not in _PASSED_OVER and token.string.strip():
                line.append(token)
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):  # templates, and files that are invalid on purpose
        return


def _files() -> list[Path]:
    folder = Path(sysconfig.get_path("stdlib"))
    names = [path.relative_to(folder) for path in folder.rglob("*.py")]
    kept = [name for name in names if not _SKIPPED.intersection(name.parts)]
    return [folder / name for name in sorted(kept, key=lambda name: hashlib.sha256(name.as_posix().encode()).digest())]


def _tagged(line: Sequence[tokenize.TokenInfo]) -> Line:
    spelled = ["".join(token.string.split()) for token in line]  # a string may hold spaces and newlines
    tagged, depth = [], 0
    for n, token in enumerate(line):
        before, after = (spelled[n - 1] if n else ""), (spelled[n + 1] if n + 1 < len(line) else "")
        depth += (spelled[n] in "([{") - (spelled[n] in ")]}") if token.type == tokenize.OP else 0
        tagged.append((spelled[n], _tag(token, before, after, depth)))
    return tagged


def _tag(token: tokenize.TokenInfo, before: str, after: str, depth: int) -> str:
    match token.type:
        case tokenize.OP:
            return "operator"
        case tokenize.NUMBER:
            return "number"
        case tokenize.NAME:
            return _name(token.string, before, after, depth)
        case _:
            return "string"  # since Python 3.12 also the pieces of f-strings


def _name(word: str, before: str, after: str, depth: int) -> str:
    if keyword.iskeyword(word):
        return "keyword"
    if before in ("def", "class"):
        return "function" if before == "def" else "class"
    if before == ".":
        return "attribute"
    if after == "(":
        return "call"
    return "argument" if depth and before in ("(", ",") and after == "=" else "name"
