"""What the site needs beyond MkDocs: pages that lie beside docs/, the lessons, and mathematics as MathML, which browsers draw.

README.md becomes the first page. In all pages $…$ and $$…$$ are LaTeX; `latex2mathml` converts it when the site is built, so
that no page loads a script for it.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parent.parent.parent
BESIDE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "LOG.md": "LOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
COURSE = CHECKOUT / "firth" / "course"
_LINK = re.compile(r"(\]\(|src=\")(?:\.\./)?(docs/|README\.md)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)


def on_files(files: Files, config: Any) -> Files:
    """The pages that lie beside docs/ join the others."""
    for name, page in BESIDE.items():
        text = (CHECKOUT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(_inside, text)))
    for path in sorted(COURSE.rglob("*")):
        if path.suffix in (".md", ".svg", ".txt"):
            text = path.read_text(encoding="utf-8").replace("](../../docs/", "](../")
            files.append(File.generated(config, f"course/{path.relative_to(COURSE).as_posix()}", content=text))
    return files


def _inside(link: re.Match[str]) -> str:
    """A link as it reads from inside docs/."""
    return link[1] + ("index.md" if link[2] == "README.md" else "")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    markdown = markdown.replace("](../firth/course/", "](course/")
    return (
        markdown
        if page.file.src_uri in BESIDE.values()
        else re.sub(r"\]\(\.\./(README|CHANGELOG|LOG|CONTRIBUTING)\.md", _beside, markdown)
    )


def _beside(link: re.Match[str]) -> str:
    return f"]({BESIDE[link[1] + '.md']}"


def on_page_content(html: str, page: Any, **_: Any) -> str:
    return _FORMULA.sub(lambda formula: _mathml(formula, page.file.src_uri), html)


def _mathml(formula: re.Match[str], page: str) -> str:
    latex = unescape(formula[2]).strip()
    display = "block" if latex.startswith("\\[") else "inline"
    latex = latex[2:-2].strip().replace("{aligned}", "{align}")  # the environment that latex2mathml knows
    try:
        found = convert(latex, display=display)
        ElementTree.fromstring(found)
    except Exception as error:
        raise PluginError(f"{page}: {latex!r} is no LaTeX that latex2mathml reads: {error!r}") from error
    if "\\" in found:
        raise PluginError(f"{page}: latex2mathml does not know a command of {latex!r}")
    return found
