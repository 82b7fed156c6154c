"""README and docs/ as text: lines that fit a screen, and a site that builds without a warning and opens without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
WIDEST = 120
PAGES = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((CHECKOUT / "docs").glob("*.md")),
    *sorted((CHECKOUT / "firth" / "course").glob("*.md")),
]


def prose(text: str) -> list[tuple[int, str]]:
    """Lines outside fences that somebody wrapped: no table, picture, or link that is too long for a line."""
    wrapped, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside and not line.lstrip().startswith(("|", "![", "<img", "<!--")):
            wrapped.append((number, line))
    return wrapped


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_prose_is_wider_than_a_screen(page: Path) -> None:
    wide = [f"{page.name}:{number}" for number, line in prose(page.read_text(encoding="utf-8")) if len(line) > WIDEST]
    assert not wide, f"wrap these lines at {WIDEST} columns"


def test_the_readme_stays_short() -> None:
    assert len((CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    pytest.importorskip("latex2mathml", reason="the site needs the extra `docs`")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    assert {"index.html", "python.html", "recipes.html", "CHANGELOG.html"} <= pages.keys()
    for name, html in pages.items():
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|png|svg)', html), name
        assert "arithmatex" not in html, f"{name} has mathematics that was not converted"
    assert "<math" in pages["attention.html"]
    assert "LanguageModelRun" in pages["python.html"]
    assert (tmp_path / "search").is_dir()
