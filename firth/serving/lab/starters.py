"""Starters: the small runs that the lab can train at the press of a button, for rooms that lack one.

The list is fixed: the page names a starter and nothing else. Each is a shipped recipe that needs no download, with the settings
that make it small, so that the command below the button trains the same run.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firth import files

if TYPE_CHECKING:
    from firth.api import Recipe

REVIEWS = """text,label
a warm and funny film,good
a fine film,good
fine and warm,good
funny and clever,good
a clever and warm story,good
a story that is never dull,good
a dull and empty film,bad
a long film,bad
dull and long,bad
empty and not funny,bad
a long and empty story,bad
a story that is not clever,bad
"""


@dataclass(frozen=True)
class Starter:
    name: str  # of the run
    about: str  # the run in a few words, after "Train"
    recipe: str
    settings: tuple[str, ...]  # a.b=value
    table: str = ""  # the training data, if they are a small table of the lab's own

    def prepare(self, folder: Path) -> Recipe:
        """The recipe, whose table is written to `folder`."""
        from firth.api import find_recipe

        if not self.table:
            return find_recipe(self.recipe, self.settings)
        data = folder / f"{self.name}.csv"
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(data, self.table)
        return find_recipe(self.recipe, [f"data.path={data.absolute()}", *self.settings])

    def command(self) -> str:
        """What trains the same run on the command line."""
        data = (f"data.path={self.name}.csv",) if self.table else ()
        parts = [one.partition("=") for one in (*data, *self.settings)]
        options = " ".join(f"--{key}={shlex.quote(value)}" for key, _, value in parts)
        lines = [f"firth train {self.recipe} --out runs/{self.name} {options}"]
        if self.table:
            written = self.table.replace("\n", "\\n")
            lines.insert(0, f"printf '{written}' > {self.name}.csv")
        return "\n".join(lines)


DATES = Starter(
    "dates",
    "a translator of dates",
    "dates-rnnsearch",
    ("data.count=4000", 'data.locales=["fr", "de", "en_GB"]', "model.width=64", "training.steps=150"),
)
GPT = Starter(
    "gpt",
    "a small Transformer",
    "docs-char-transformer",
    ("model.depth=2", "training.steps=300", "training.batch=16"),
)
CLASSIFIER = Starter(
    "reviews",
    "a classifier of short reviews",
    "sst2-average",
    ("tokenizer.min_count=1", "data.valid=0", "training.steps=60"),
    REVIEWS,
)
STARTERS = {one.name: one for one in (DATES, GPT, CLASSIFIER)}
