"""How firth makes its own data sets, from the settings of the `[data]` table that concern them.

What a data set needs to be made is imported when it is: the list of data sets must not take longer to load for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.progress import Progress
from firth.text.data_set import MadeImages, Part

if TYPE_CHECKING:
    from firth.text.config import CaptionsConfig, ConversationsConfig, PairsConfig
    from firth.text.conversation import Conversation

PlacedPair = tuple[str, "Sequence[str]"]  # where it is, for messages, and both sides


def docs(progress: Progress) -> Mapping[str, Path]:
    from firth.text.datasets.docs import docs_corpus

    return {"train": docs_corpus(progress)}


def dates(data: PairsConfig, part: Part, progress: Progress) -> Iterator[PlacedPair]:
    from firth.text.datasets.dates import dates

    for number, pair in enumerate(dates(data.locales, _share(data.count, part), part), start=1):
        yield f"dates, {part} {number}", pair


def docstrings(data: PairsConfig, part: Part, progress: Progress) -> Iterator[PlacedPair]:
    from firth.text.datasets.docs import docstring_summaries

    for number, pair in enumerate(docstring_summaries(progress), start=1):
        yield f"docstring {number}", pair


def prompts(data: PairsConfig, part: Part, progress: Progress) -> Iterator[PlacedPair]:
    from firth.text.datasets.prompts import prompts

    return prompts(part, data.valid, progress)


def chats(data: PairsConfig | ConversationsConfig, part: Part, progress: Progress) -> list[Conversation]:
    from firth.text.datasets.chats import chats

    return chats(data.skills, data.count, part, progress)


def scenes(data: CaptionsConfig, part: Part, progress: Progress) -> MadeImages:
    from firth.text.datasets.scenes import scenes

    return scenes(_share(data.count, part), part, data.side, of_kinds=data.scene_kinds)


def digits(data: CaptionsConfig, part: Part, progress: Progress) -> MadeImages:
    from firth.text.datasets.digits import digits

    return digits(data.side)[part]


def _share(count: int, part: Part) -> int:
    """`count` is that of training; other parts have a tenth of it."""
    return count if part == "train" else count // 10
