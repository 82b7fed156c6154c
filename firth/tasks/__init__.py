"""One file per task. `TASKS` collects them: to add one, write its file and put it here."""

from __future__ import annotations

from typing import Any

from firth.errors import ConfigError, either, listed
from firth.ideas import Ideas
from firth.tasks.answer import QuestionAnswering
from firth.tasks.captioning import Captioning
from firth.tasks.classification import TextClassification
from firth.tasks.conversation import ConversationTask
from firth.tasks.denoising import DenoisingTask
from firth.tasks.electra import ReplacedTokenDetection
from firth.tasks.embedding import TextEmbedding
from firth.tasks.in_context import InContext
from firth.tasks.in_context_regression import InContextRegression
from firth.tasks.masked import Masked
from firth.tasks.next_token import NextToken
from firth.tasks.span_corruption import SpanCorruption
from firth.tasks.tagging import Tagging
from firth.tasks.task import SPECIAL, AnyTask, Tables, Task, changed
from firth.tasks.translation import TranslationTask
from firth.text.data_set import Holds, fitting

# The first task of a family is the default objective of its recipes.
TASKS: Ideas[type[AnyTask]] = Ideas(
    "task",
    Task,
    (
        NextToken,
        TextClassification,
        TranslationTask,
        Masked,
        ReplacedTokenDetection,
        Tagging,
        QuestionAnswering,
        SpanCorruption,
        DenoisingTask,
        InContext,
        InContextRegression,
        ConversationTask,
        Captioning,
        TextEmbedding,
    ),
)
FAMILIES = tuple(dict.fromkeys(family for task in TASKS for family in task.families))


def task_for(recipe: Tables[Any, Any]) -> AnyTask:
    return TASKS[recipe.objective.kind](recipe)


def default_task(family: str) -> type[AnyTask]:
    """The default objective of a model family."""
    return next(task for task in TASKS if family == task.families[0])


def check(recipe: Tables[Any, Any]) -> None:
    """Raise a ConfigError if the tables of a recipe contradict each other; each table checks its own settings."""
    task = task_for(recipe)
    _check_family(recipe, task)
    _check_source(recipe, task)
    _check_special(recipe, task)
    task.check()


def owners(key: str, table: str = "data") -> list[str]:
    """The tasks whose [data] or [objective] has a setting of that name, present or former."""
    kinds = ((task.name, task.Data if table == "data" else task.Objective) for task in TASKS)
    return [name for name, config in kinds if key in names_of(config)]


def names_of(config: type) -> set[str]:
    """The settings of a table, their former names included."""
    return {name for field in fields_of(config) for name in (field.name, *field.metadata.get("was", ()))}


def fields_of(config: type) -> tuple[Any, ...]:
    return tuple(getattr(config, "__dataclass_fields__").values())  # noqa: B009 (every config is a dataclass)


def _check_family(recipe: Tables[Any, Any], task: AnyTask) -> None:
    family = recipe.model.family
    if family not in task.families:
        fitting = [one.name for one in TASKS if family in one.families]
        raise ConfigError(
            f'objective.kind = "{task.name}" needs model.family = {either(task.families)}; it is "{family}". Change it, or set '
            f"objective.kind = {either(fitting)}."
        )


def _check_source(recipe: Tables[Any, Any], task: AnyTask) -> None:
    """The data must be of the kind that the task learns from; a file is checked when it is read."""
    data, held = recipe.data, recipe.data.holds
    if not data.given:
        return  # an imported model; api/recipe.py refuses other recipes without data
    if held in fitting(task.reads) or (data.path is not None and task.files):
        return
    given = f'data.name = "{data.name}"' if data.name else f'data.path = "{data.path}"' if data.path else "data.text"
    if task.reads == "running text":
        other = next(one for one in TASKS if one.reads == held)
        advice = f'Set objective.kind = "{other.name}" and model.family = "{other.families[0]}", or choose another data.name.'
    else:
        advice = task.sources()
    raise ConfigError(f"{given} is {_shown(held)}, but {task.name} needs {task.reads}. {advice}")


def _shown(held: Holds) -> str:
    return f"{'' if held == 'running text' else 'a set of '}{held}"


def _check_special(recipe: Tables[Any, Any], task: AnyTask) -> None:
    for setting in SPECIAL:
        if setting not in task.uses and (value := changed(recipe, setting)) is not None:
            others = [one.name for one in TASKS if setting in one.uses]
            raise ConfigError(
                f'{setting} = {value} only applies to {listed(others)}; objective.kind is "{task.name}". Remove it.'
            )
