"""What kind of data a recipe's [data] table names, without reading any of it."""

from __future__ import annotations

from typing import Literal

from firth.text.config import DataConfig
from firth.text.datasets.catalog import data_set

Holds = Literal[
    "running text",
    "labelled texts",
    "tagged words",
    "questions",
    "sentence pairs",
    "conversations",
    "prompts of swaps",
    "points of linear functions",
    "captioned images",
]
_GENERATED: dict[str | None, Holds] = {
    None: "running text",
    "docs": "running text",
    "dates": "sentence pairs",
    "docstrings": "sentence pairs",
    "prompts": "sentence pairs",
    "chats": "conversations",
    "python-source": "tagged words",
    "stories": "questions",
    "opinions": "labelled texts",
    "swaps": "prompts of swaps",
    "linear": "points of linear functions",
    "scenes": "captioned images",
    "digits": "captioned images",
}


def holds(data: DataConfig) -> Holds:
    """The kind of data behind data.name; data.text is running text, and so is what a file holds until it is read."""
    if data.name in _GENERATED:
        return _GENERATED[data.name]
    entry = data_set(str(data.name))
    if entry.tagged is not None:
        return "tagged words"
    if entry.columns is not None:
        return "labelled texts"
    return "running text" if entry.pairs is None else "sentence pairs"
