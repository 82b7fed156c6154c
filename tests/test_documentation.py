"""README and docs run: their sh, console and python fences, in order, in one folder per file.

A fence with a title is a file, saved in that folder. A fence right after `<!-- not run: reason -->` is left out. In a
console fence, what follows "$ " is run and the rest is its output; right after `<!-- known answer -->`, it must be
exactly what the commands print.
Variables and the folder last from one fence to the next, and so do Python names.
`make test` follows README with trainings cut to a few steps, `make test-all` every page to the letter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warm_firth import warm_firth

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = [path for path in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))) if path.is_file()]
RUN = ("sh", "console", "python")
OTHER_NAMES = {"bash": "sh", "shell": "sh", "zsh": "sh", "py": "python", "python3": "python", "pycon": "python"}
_FENCE = re.compile(r"^(?P<indent> *)(?P<mark>```+|~~~+)\s*(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?")
_EXEMPT = re.compile(r"<!--\s*not run\b:?\s*(?P<reason>.*?)\s*-->\s*$")


@dataclass(frozen=True)
class Fence:
    language: str
    code: str
    line: int  # of its first line of code, counted from 1
    known: bool = False  # the output that it shows is a known answer
    title: str | None = None  # of a file to be saved instead


def fences(text: str) -> list[Fence]:
    """The fences that are to be run."""
    to_run, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        indent, mark, language = opening["indent"], opening["mark"], opening["language"]
        end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == mark), None)
        assert end is not None, f"line {at + 1}: a fence is never closed"
        assert language not in OTHER_NAMES, f"line {at + 1}: call this fence {OTHER_NAMES[language]}, so that it is run"
        if (language in RUN or opening["title"]) and not _exempt(lines, at):
            code = "\n".join(line.removeprefix(indent) for line in lines[at + 1 : end])
            known = at > 0 and lines[at - 1] == "<!-- known answer -->"
            to_run.append(Fence(language, code + "\n", at + 2, known, opening["title"]))
        at = end + 1
    return to_run


def _exempt(lines: list[str], at: int) -> bool:
    comment = _EXEMPT.search(lines[at - 1]) if at else None
    if comment is None:
        return False
    assert comment["reason"], f"line {at}: say why, <!-- not run: reason -->"
    return True


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, folder: Path, commands: Path | None = None) -> None:
        """`commands`: a folder with other commands than the installed ones."""
        self._path = [str(place) for place in (commands, Path(sys.executable).parent) if place is not None]
        self.folder = folder / "place"
        self.folder.mkdir()
        self._state = folder / "state.sh"
        self._state.touch()
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, path: Path) -> None:
        self.follow_text(path.read_text(encoding="utf-8"), path)

    def follow_text(self, text: str, path: Path) -> None:
        for fence in fences(text):
            where = f"{path.name}:{fence.line}"
            if fence.title is not None:
                (self.folder / fence.title).write_text(fence.code, encoding="utf-8")
            elif fence.language == "python":
                self._python(fence.code, where)
            else:
                out = self._shell(fence.code if fence.language == "sh" else _typed(fence.code), where)
                if fence.known:
                    assert out.splitlines() == _shown(fence.code), f"{where} prints\n{out}"

    def _python(self, code: str, where: str) -> None:
        try:
            exec(compile(code, f"<{where}>", "exec"), self._names)
        except Exception as error:
            raise AssertionError(f"{where} raises {error!r}\n{code}") from error

    def _shell(self, commands: str, where: str) -> str:
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > '{self._state}'"
        script = f". '{self._state}'\nset -euo pipefail\n{commands}\n{keep}\n"
        environment = os.environ | {"PATH": os.pathsep.join([*self._path, os.environ["PATH"]])}
        environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        bash = ["bash", "-c", script]
        done = subprocess.run(
            bash, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{where} exits with {done.returncode}\n{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _typed(text: str) -> str:
    """The commands of a console fence: "$ " begins one, a backslash at the end of the line continues it."""
    commands, going_on = [], False
    for line in text.splitlines():
        if going_on or line.startswith("$ "):
            commands.append(line if going_on else line[2:])
            going_on = line.endswith("\\")
    return "\n".join(commands)


def _shown(text: str) -> list[str]:
    """The lines of a console fence that are not commands."""
    commands = set(_typed(text).splitlines())
    return [line for line in text.splitlines() if line not in commands and line.removeprefix("$ ") not in commands]


@pytest.mark.long
@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(CHECKOUT).as_posix() for path in PAGES])
def test_what_a_page_says_works(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(tmp_path)
    monkeypatch.chdir(reader.folder)
    reader.follow(path)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_firth(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


def test_every_command_of_the_readme_works_after_a_short_training(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, path = Reader(tmp_path, commands), CHECKOUT / "README.md"
    monkeypatch.chdir(reader.folder)
    text, cut = re.subn(r"(--training\.steps=)\d+", r"\g<1>12", path.read_text(encoding="utf-8"))
    assert cut == 3, "a training of README that is not cut short"
    reader.follow_text(text, path)


def test_a_firth_that_starts_fast_has_the_streams_folder_and_exit_code_of_a_process(commands: Path, tmp_path: Path) -> None:
    text = """
```sh
mkdir sub && cd sub
printf 'a b a b\\n' | firth vectors train - --out own.firth --dim 2 --min-count 1 2> progress.txt | grep '2 words'
firth results no-such-recipe > out.txt 2> error.txt || echo "exit code $?" >> out.txt
FIRTH_CACHE=$PWD FIRTH_DATA=$PWD/nowhere firth data path ptb 2>> error.txt || true
grep -q own.firth <(ls) && [ "$(cat out.txt)" = "exit code 2" ]
grep -q 'no shipped recipe "no-such-recipe"' error.txt && grep -q 'sub/nowhere' error.txt
```
"""
    Reader(tmp_path, commands).follow(page(tmp_path, text))


def test_the_index_of_the_lectures_links_to_every_page_of_the_lecture() -> None:
    text = (CHECKOUT / "docs" / "lectures.md").read_text(encoding="utf-8")
    lecture = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8").partition("  - Lecture:\n")[2].partition("\n  - ")[0]
    pages = set(re.findall(r"[a-z0-9-]+\.md", lecture)) - {"lectures.md"}
    assert len(pages) > 10
    assert pages <= set(re.findall(r"\]\(([a-z0-9-]+\.md)", text))


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_fences_run_in_order_and_share_what_they_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(tmp_path)
    monkeypatch.chdir(reader.folder)
    text = """
```sh
mkdir sub; export WORD=there
echo one > first.txt
```

1. nested

   ```console
   $ cd sub
   $ printf '%s' \\
       "$WORD" > second.txt
   not a command
   ```

```python
from pathlib import Path
first = Path("first.txt").read_text()
```

```sh
pwd > third.txt
firth --version
```

```python
assert first == "one\\n"
assert Path("sub/second.txt").read_text() == "there"
assert Path("sub/third.txt").read_text().endswith("/sub\\n")
```
"""
    reader.follow(page(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```sh\ntrue\nfalse\n```\n", "page.md:2 exits with 1"),
        ("```sh\nfalse | true\n```\n", "exits with 1"),
        ("```console\n$ no-such-command\n```\n", "exits with 127"),
        ("<!-- known answer -->\n```console\n$ echo 7 && \\\n    echo 8\n7\n9\n```\n", "page.md:3 prints"),
        ("```sh\nmake tour\n```\n", "exits with 2"),
        ("```python\nassert 1 == 2\n```\n", "page.md:2 raises AssertionError"),
        ("```bash\ntrue\n```\n", "call this fence sh"),
        ("```sh\ntrue\n", "never closed"),
        ("<!-- not run: -->\n```sh\nfalse\n```\n", "say why"),
        ("<!-- not run -->\n```sh\nfalse\n```\n", "say why"),
        ("<!-- not run: it is too far from its fence -->\n\n```sh\nfalse\n```\n", "exits with 1"),
    ],
    ids=lambda value: "",
)
def test_a_page_that_does_not_work_is_red(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as error:
        Reader(tmp_path).follow(page(tmp_path, text))
    assert complaint in str(error.value)


def test_what_says_why_is_not_run(tmp_path: Path) -> None:
    text = "<!-- not run: takes two minutes -->\n```sh\nfalse\n```\n\n```toml\nx = 1\n```\n\n```\nfalse\n```\n"
    assert fences(text) == []
    Reader(tmp_path).follow(page(tmp_path, text))
