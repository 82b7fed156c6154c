"""A lesson as text, and as the notebook or Markdown file that a student opens."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from firth.errors import ConfigError, option
from firth.files import exists, is_file, replacing, write_text

Form = Literal["notebook", "markdown"]
_SUFFIX: dict[Form, str] = {"notebook": ".ipynb", "markdown": ".md"}
_FOLDER = Path(__file__).resolve().parent
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Lesson:
    number: int
    name: str  # of the file, without its suffix: "05-gates"
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].partition(". ")[2]

    @property
    def about(self) -> str:
        """The paragraph below the title."""
        return " ".join(self.text.split("\n\n")[1].split())

    def files(self) -> list[Path]:
        """The drawings and texts that the lesson links to in its own folder, relative to it."""
        linked = {target.partition("#")[0] for _, _, target in _LINK.findall(self.text)}
        return sorted(Path(target) for target in linked if target and not target.endswith(".md") and is_file(_FOLDER / target))


def lessons() -> list[Lesson]:
    return [Lesson(int(path.stem[:2]), path.stem, path) for path in sorted(_FOLDER.glob("[0-9][0-9]-*.md"))]


def find_lesson(number: int) -> Lesson:
    listed = {lesson.number: lesson for lesson in lessons()}
    if number not in listed:
        raise ConfigError(f"there is no lesson {number}; choose one from {min(listed)} to {max(listed)}")
    return listed[number]


def write_lesson(lesson: Lesson, folder: Path, form: Form = "notebook", overwrite: bool = False) -> Path:
    """Write the lesson, and the files that belong to it, into `folder`. Its links to other pages become their names there."""
    if form not in get_args(Form):
        raise ConfigError(f"unknown form {form!r}; choose one of: {', '.join(get_args(Form))}")
    path = folder / f"{lesson.name}{_SUFFIX[form]}"
    if exists(path) and not overwrite:
        raise ConfigError(f"{path} exists. Choose another {option('out')}, or add {option('overwrite=True')} to replace it.")
    text = _LINK.sub(_for_student, lesson.text)
    written = _notebook(text) if form == "notebook" else text
    for file in lesson.files():
        with replacing(folder / file) as temporary:
            shutil.copyfile(_FOLDER / file, temporary)
    write_text(path, written)
    return path


def _for_student(link: re.Match[str]) -> str:
    """Links to pages that lie elsewhere lead nowhere from the student's folder."""
    text, target = link[2], link[3].partition("#")[0]
    if link[1] or not target.endswith(".md"):
        return link[0]
    page = target.removeprefix("../../")
    return f"{text} ({page})" if page.startswith("docs/") else text


def _notebook(text: str) -> str:
    try:
        import jupytext
    except ImportError:
        other = option('form="markdown"', "--form markdown")
        advice = f'Install it with pip install "firth[course]", or choose {other}.'
        raise ConfigError(f"a notebook needs the package jupytext. {advice}") from None
    notebook = jupytext.reads("\n".join(_one_cell_per_part(text)), fmt="md")
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return str(jupytext.writes(notebook, fmt="ipynb"))


def _one_cell_per_part(text: str) -> Iterator[str]:
    """Two empty lines before a heading, where jupytext begins a new cell."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        if not inside and line.startswith("## "):
            yield ""
        yield line
