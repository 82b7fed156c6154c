"""Starters: the small runs and word vectors that the lab can train at the press of a button, for rooms that lack them.

The list is fixed: the page names a starter and nothing else. Each needs no download and is small; the command below the button
trains the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from firth import files
from firth.serving.lab.trainings import RunTraining, VectorsTraining

_FOLDER = Path("runs")  # in the commands, as in README
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
class RunStarter:
    """A shipped recipe with the settings that make it small."""

    name: str  # of what it makes, without a suffix
    about: str  # what it makes in a few words, after "Train"
    recipe: str
    settings: tuple[str, ...]  # a.b=value
    table: str = ""  # the training data, if they are a small table of the lab's own

    def training(self, folder: Path) -> RunTraining:
        """The task of the workshop; a table that it reads is written to `folder`."""
        from firth.api import find_recipe

        if not self.table:
            return RunTraining(find_recipe(self.recipe, self.settings))
        data = folder / f"{self.name}.csv"
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(data, self.table)
        return RunTraining(find_recipe(self.recipe, [f"data.path={data.absolute()}", *self.settings]))

    def command(self) -> str:
        """The command that trains the same."""
        data = (f"data.path={self.name}.csv",) if self.table else ()
        parts = [one.partition("=") for one in (*data, *self.settings)]
        options = " ".join(f"--{key}={shlex.quote(value)}" for key, _, value in parts)
        lines = [f"firth train {self.recipe} --out {_FOLDER / self.name} {options}"]
        if self.table:
            written = self.table.replace("\n", "\\n")
            lines.insert(0, f"printf '{written}' > {self.name}.csv")
        return "\n".join(lines)


@dataclass(frozen=True)
class VectorsStarter:
    """Word vectors of a text that firth finds on the disk."""

    name: str
    about: str
    corpus: str
    settings: Mapping[str, int] = field(default_factory=dict)

    def training(self, folder: Path) -> VectorsTraining:
        return VectorsTraining(self.corpus, self.settings)

    def command(self) -> str:
        made = self.training(_FOLDER)
        return shlex.join(["firth", *made.verb(_FOLDER / f"{self.name}{made.suffix}")])


Starter = RunStarter | VectorsStarter


def _settings(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DATES = RunStarter(
    "dates",
    "a translator of dates",
    "dates-rnnsearch",
    ("data.count=4000", 'data.locales=["fr", "de", "en_GB"]', "model.width=64", "training.steps=150"),
)
GPT = RunStarter(
    "gpt", "a small Transformer", "docs-char-transformer", ("model.depth=2", "training.steps=300", "training.batch=16")
)
CLASSIFIER = RunStarter(
    "reviews",
    "a classifier of short reviews",
    "sst2-average",
    ("tokenizer.min_count=1", "data.valid=0", "training.steps=60"),
    REVIEWS,
)
WORDS = VectorsStarter(
    "words", "word vectors", "docs", {"dim": 64, "min_count": 10, "epochs": 10, "lower": True, "strip_punctuation": True}
)
TAGGER = RunStarter(
    "tags",
    "a tagger of Python code",
    "ewt-pos-bilstm",
    _settings(
        "data.name=python-source data.tag_column=2 tokenizer.lower=false model.width=64 model.embedding.width=64 "
        "model.characters=16 model.dropout=0.2 objective.unknown=0 training.steps=300 training.batch=32 "
        "training.rate=0.01 training.warmup=0 training.average=0 training.log_every=5 training.evaluate_every=0"
    ),
)
CHAT = RunStarter(
    "chat",
    "a chat model for dates",
    "chat-decoder",
    _settings(
        'data.skills=["dates"] data.count=8000 tokenizer.vocab=400 model.width=64 model.depth=2 '
        "model.attention.heads=4 model.dropout=0 training.steps=700 training.batch=32 training.context=96 "
        "training.rate=0.005 training.warmup=20 training.average=0 training.dtype=float32 training.log_every=10 "
        "training.evaluate_every=0"
    ),
)
QUESTIONS = RunStarter(
    "questions", "a model that answers questions about short stories", "stories-questions", ("training.evaluate_every=0",)
)
CAPTIONER = RunStarter(
    "captions",
    "a captioner of single shapes",
    "scenes-lstm",
    _settings(
        'data.kinds=["one"] data.size=32 model.channels=[12,24,48] model.width=64 model.embedding.width=32 '
        "training.steps=1000 training.context=6 training.rate=0.004 training.warmup=50 training.log_every=10 "
        "training.evaluate_every=0 decoding.tokens=6"
    ),
)
STARTERS: Mapping[str, Starter] = {one.name: one for one in (DATES, GPT, CLASSIFIER, WORDS, TAGGER, CHAT, QUESTIONS, CAPTIONER)}
