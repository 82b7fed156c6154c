"""What a run offers, read from its recipe without loading its weights.

This is the only place in the lab that knows tasks and model configurations. Rooms and the page decide by these facts.
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
)

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
    reads_text: bool = False
    generates: bool = False  # continues a prompt token by token
    chats: bool = False  # answers messages: trained on conversations, or imported with a chat template
    translates: bool = False
    tags: bool = False
    classifies: bool = False
    captions: bool = False
    learns_in_context: bool = False
    takes_target: bool = False  # an encoder–decoder also encodes the text that it is to produce
    takes_context: bool = False  # a reader searches a context for the answer
    recurrent: bool = False  # has hidden states and, except for a plain RNN, gates
    attention: bool = False
    multi_head: bool = False
    walks: bool = False  # a language model or an encoder–decoder over text: inspection/walk

    def json(self) -> dict[str, object]:
        return asdict(self)


def run_facts(recipe: Recipe, folder: RunFolder | None = None) -> RunFacts:
    """`folder` is where an imported model keeps its chat template."""
    from firth.models import RecurrentConfig, RecurrentEncoderConfig, RecurrentSeq2SeqConfig
    from firth.models.config import TransformerSettings

    model, task = recipe.model, recipe.task
    transformer = isinstance(model, TransformerSettings) and model.family != "caption"  # the lab's rooms read text
    return RunFacts(
        about=f"{model.family} model, {model.kind}, {task.name}",
        example=_example(recipe.data),
        texts=_texts(recipe.data),
        group=_group(recipe),
        task=task.name,
        family=model.family,
        reads_text=task.reads not in ("points of linear functions", "captioned images"),
        generates=task.reads in ("running text", "conversations") and hasattr(task.run_class, "generate"),
        chats=hasattr(task.run_class, "chat") and (task.reads == "conversations" or _has_template(folder)),
        translates=hasattr(task.run_class, "translate"),
        tags=hasattr(task.run_class, "tag"),
        classifies=hasattr(task.run_class, "classify"),
        captions=hasattr(task.run_class, "caption"),
        learns_in_context=task.draws_several,
        takes_target=model.family == "seq2seq",
        takes_context=task.reads == "questions",
        recurrent=isinstance(model, RecurrentConfig | RecurrentEncoderConfig | RecurrentSeq2SeqConfig),
        attention=transformer or (isinstance(model, RecurrentSeq2SeqConfig) and model.attention != "none"),
        multi_head=transformer,
        walks=model.family in ("language", "seq2seq")
        and model.kind != "prefix"
        and (hasattr(task.run_class, "generate") or hasattr(task.run_class, "translate")),
    )


def _group(recipe: Recipe) -> str:
    from firth.models import RecurrentConfig

    if recipe.task.draws_several:
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
    from firth.text.config import PairsConfig

    if data.has_tags:
        return PYTHON if _tags_python(data) else SENTENCES
    if data.text:  # its own words, which its vocabulary has
        return next((line.strip()[:60] for line in data.text.splitlines() if line.strip()), ENGLISH)
    if isinstance(data, PairsConfig):
        return source_sentence(data.name, data.source)
    return source_sentence(data.name, None) if data.name == "chats" else ENGLISH
