"""The room Words without a browser."""

from __future__ import annotations

from pathlib import Path

from firth.progress import silent
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms.words import contexts


def test_contexts_in_documentation_show_no_markup(tmp_path: Path) -> None:
    text = tmp_path / "docs.txt"
    text.write_text("a shape of :math:`(n)` in ``bytes``\na shape of :class:`~torch.Size` here\nother words\n", encoding="utf-8")
    result = contexts(ViewRequest({"corpus": str(text), "words": "shape"}), RunLibrary([], [], [str(text)]), silent)
    assert result.table is not None
    assert [row[2] for row in result.table.rows] == ["of (n) in bytes", "of size here"]
    assert {row[0] for row in result.figures["near shape"].table.rows} == {"a", "of", "n", "in", "bytes", "size", "here"}
    assert "plain=True" in result.python
