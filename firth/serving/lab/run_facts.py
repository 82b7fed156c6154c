"""Facts about a run, read from its recipe without loading its weights.

Rooms and the page decide by these facts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from firth.serving.lab.examples import (
    ENGLISH,
    PYTHON,
    SENTENCES,
    TAGGED_ENGLISH,
    TAGGED_PYTHON,
    TextExample,
    asked,
    questions,
    source_sentence,
    source_texts,
    swaps,
)
from firth.tasks.ability import ANSWER, LEARN_IN_CONTEXT, Ability

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.text.config import DataConfig
    from firth.training.folder import RunFolder


@dataclass(frozen=True)
class RunFacts:
    about: str  # one line for the list of runs
    example: str = ""  # a starting text for the run; "" if the lab knows none
    texts: tuple[TextExample, ...] = ()  # texts that show what the run has learned
    group: str = "Unreadable runs"  # the heading under which lists of runs show it
    task: str | None = None  # None: the recipe cannot be read, and `about` says why
    family: str | None = None
    abilities: tuple[str, ...] = ()  # what it can do, by the names of firth/tasks/ability.py
    inputs: tuple[str, ...] = ()  # what it reads besides a text: "target", the text to produce; "context", for the answer

    def can(self, ability: Ability) -> bool:
        return ability.name in self.abilities

    def json(self) -> dict[str, object]:
        return asdict(self)


def run_facts(recipe: Recipe, folder: RunFolder | None = None) -> RunFacts:
    """`folder` is where an imported model keeps its chat template."""
    task, model = recipe.task, recipe.model
    abilities = task.abilities(_has_template(folder))
    return RunFacts(
        about=f"{model.family} model, {model.kind}, {task.name}",
        example=_example(recipe.data),
        texts=_texts(recipe.data),
        group=_group(recipe),
        task=task.name,
        family=model.family,
        abilities=tuple(one.name for one in abilities),
        inputs=("context",) if ANSWER in abilities else ("target",) if model.family == "seq2seq" else (),
    )


def _group(recipe: Recipe) -> str:
    from firth.models import RecurrentConfig

    if LEARN_IN_CONTEXT in recipe.task.can:
        return "In-context learners"
    match recipe.model.family:
        case "language":
            return "Recurrent language models" if isinstance(recipe.model, RecurrentConfig) else "Transformers"
        case "seq2seq":
            return "Translators"
        case "encoder":
            return "Encoders"
        case "caption":
            return "Captioning models"


def _has_template(folder: RunFolder | None) -> bool:
    if folder is None or not folder.tokenizer_config.is_file():
        return False
    try:
        return bool(json.loads(folder.tokenizer_config.read_text(encoding="utf-8")).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return False


def _tags_python(data: DataConfig) -> bool:
    return {"keyword", "operator"} <= set(getattr(data, "labels", None) or ())


def _texts(data: DataConfig) -> tuple[TextExample, ...]:
    from firth.text.config import PairsConfig, QuestionsConfig

    if isinstance(data, QuestionsConfig):
        return asked(data.name)
    if data.has_tags:
        return TAGGED_PYTHON if _tags_python(data) else TAGGED_ENGLISH
    if data.name == "chats":
        return questions(getattr(data, "skills", None))
    return source_texts(data.name, data.source) if isinstance(data, PairsConfig) else ()


def _example(data: DataConfig) -> str:
    from firth.text.config import PairsConfig, SwapsConfig

    if isinstance(data, SwapsConfig):
        return swaps(data.letters, data.word_length)
    if data.has_tags:
        return PYTHON if _tags_python(data) else SENTENCES
    if data.text:  # its own words, which its vocabulary has
        return next((line.strip()[:60] for line in data.text.splitlines() if line.strip()), ENGLISH)
    if isinstance(data, PairsConfig):
        return source_sentence(data.name, data.source)
    return source_sentence(data.name, None) if data.name == "chats" else ENGLISH
