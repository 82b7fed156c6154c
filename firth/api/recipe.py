"""A recipe: the tables [data] [tokenizer] [model] [objective] [training] [decoding] [expected], composed and checked."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from firth import interop
from firth.config import (
    Assignment,
    Notice,
    Table,
    build,
    canonical,
    merged,
    named_settings,
    override,
    own_ideas,
    read_toml,
    to_table,
    to_toml,
    with_changes,
)
from firth.decoding.config import FILTERS
from firth.errors import ConfigError, either, listed
from firth.files import is_file
from firth.ideas import expect, use_installed
from firth.models import ModelConfig
from firth.models.config import note_kept_hidden
from firth.shipped import recipe_path
from firth.tasks import FAMILIES, TASKS, check, default_task, fields_of, names_of, owners, task_for
from firth.tasks.next_token import NextTokenConfig
from firth.tasks.splits import Split
from firth.tasks.task import AnyTask, ObjectiveConfig, Tables
from firth.text.config import DataConfig
from firth.text.readers.corpus import origins_of_readers
from firth.training.metric import METRICS

FROM_RECIPE = "recipe:"  # training.init = "recipe:wiki8-mlm"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The measured result of the recipe and, if there is one, the published result."""

    metric: str  # metric of the result, as `firth evaluate` names it
    direction: Literal["lower", "higher"] = "lower"  # whether a lower or a higher value is better
    split: Split | None = None  # part of the data that was evaluated; if not set, the first of test, valid and train that exists
    published: float | None = None  # published result
    source: str | None = None  # source of the published result
    measured: float | None = None  # result that this recipe reached; `firth verify` compares with it
    seeds: int | None = None  # number of seeds whose mean is `measured`; if not set, one run
    spread: float | None = None  # standard deviation over those seeds
    # number of random batches of text whose mean loss was published; if not set, the whole text was evaluated
    random_batches: int | None = None
    measured_random: float | None = None  # result of this recipe on that many random batches
    hardware: str | None = None  # hardware and torch version used for the measurement
    date: str | None = None  # date of the measurement
    minutes: float | None = None  # training time in minutes
    tolerance: float = 0.02  # largest difference from `measured` that `firth verify` accepts, in units of the metric
    sha256: str | None = None  # fingerprint of the text that was measured, for texts that differ between machines

    def __post_init__(self) -> None:
        if self.random_batches is not None and (self.metric != "loss" or self.random_batches < 1):
            raise ConfigError(
                f'expected.random_batches is {self.random_batches} with expected.metric = "{self.metric}"; '
                'expected 1 or more, and the metric "loss"'
            )
        if (self.seeds is None) != (self.spread is None) or (self.seeds is not None and self.seeds < 2):
            raise ConfigError(
                f"expected.seeds is {self.seeds} and expected.spread is {self.spread}. Set both (two seeds or more), or neither."
            )
        if self.metric == "wic_accuracy" and self.split not in (None, "valid"):
            raise ConfigError(
                'expected.metric is "wic_accuracy", which is measured on wic\'s development pairs. Set expected.split = "valid", '
                f'not "{self.split}".'
            )
        if self.measured_random is not None and self.random_batches is None:
            raise ConfigError("expected.measured_random needs the number of batches. Set expected.random_batches.")


@dataclass(frozen=True, kw_only=True)
class Recipe(Tables[Any, Any]):
    """Everything that decides how a model is trained. The classes of [data] and [objective] are those of the recipe's task."""

    summary: str = ""  # one line about the recipe, for `firth recipes`
    # architecture of the public model whose weights were imported instead of trained; such a run needs no [data]
    imported: str | None = None
    # Python files and packages with ideas of your own that this uses, each with its version; training fills it in
    ideas: tuple[str, ...] | None = None
    data: DataConfig
    objective: ObjectiveConfig = dataclasses.field(default_factory=NextTokenConfig)
    expected: Expected | None = None  # results to reproduce; `firth verify` checks them

    def __post_init__(self) -> None:
        if self.imported is None and not self.data.given:
            raise ConfigError("the recipe has no data. Set one of data.name, data.path and data.text.")
        check(self)
        if self.expected is not None:
            self.task.check_metric("expected.metric", self.expected.metric, self.task.metrics)

    @property
    def task(self) -> AnyTask:
        """The task of this recipe."""
        return task_for(self)

    def resolved(self) -> Recipe:
        """The same recipe with all settings filled in, so that it means the same on other machines and in later versions."""
        model = self.model.with_room(self.training.context)
        embedding: Any = dataclasses.replace(model.embedding, vectors=_absolute(model.embedding.vectors))
        model = dataclasses.replace(model, embedding=embedding)
        anywhere: dict[str, Any] = {key: _absolute(getattr(self.data, key)) for key in self.data.paths()}
        data = dataclasses.replace(self.data, **anywhere)
        init = self.training.init
        if init is not None and not init.startswith(FROM_RECIPE):
            init = _absolute(init)
        training = dataclasses.replace(self.training, init=init)
        return dataclasses.replace(
            self, model=model, data=data, training=training, objective=self.objective.resolved(), ideas=self._origins()
        )

    def _origins(self) -> tuple[str, ...] | None:
        """The files and packages whose ideas this recipe names."""
        named = (one.origin for one in own_ideas(self))
        filters = (FILTERS.origin(one.kind) for one in self.decoding.acting)
        data = self.data
        paths = [path for key in data.paths() if (path := getattr(data, key))] + list(getattr(data, "more", None) or ())
        metrics = (self.training.select, *(() if self.expected is None else (self.expected.metric,)))
        own = (TASKS.origin(self.objective.kind), *map(METRICS.origin, metrics))
        origins_in_use = (*named, *filters, *own, *origins_of_readers(paths, data.format))
        return tuple(sorted({str(one) for one in origins_in_use if one is not None})) or None

    def toml(self) -> str:
        """The recipe as the text of a TOML file."""
        return to_toml(self)


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, with `--a.b=value` settings applied."""
    return compose(read_toml(path), assignments)


def find_recipe(name: str, assignments: Sequence[str] = ()) -> Recipe:
    """The shipped recipe of that `name`, or the one in that TOML file.

    `assignments` change single settings, as on the command line: ["model.depth=6"]."""
    return read_recipe(recipe_path(name), assignments)


def read_run_recipe(path: Path) -> Recipe:
    """The recipe of a run, which may be an old one: no note about settings that have a new name, and no <start> where the recipe
    does not mention it."""
    recipe = compose(read_toml(path), notice=lambda message: None, complete=True)
    return recipe if recipe.tokenizer.start else with_start(recipe, False)


def with_start(recipe: Recipe, has: bool) -> Recipe:
    """The recipe with tokenizer.start filled in, where it applies."""
    if recipe.tokenizer.kind != "char" or "tokenizer.start" not in recipe.task.uses:
        return recipe
    return dataclasses.replace(recipe, tokenizer=dataclasses.replace(recipe.tokenizer, start=has))


def _note(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def compose(
    table: Mapping[str, Any], assignments: Sequence[Assignment] = (), notice: Notice = _note, *, complete: bool = False
) -> Recipe:
    """The recipe that `table`, a nested dict, describes.

    `assignments` change single settings: ["model.depth=6"]. Unless it is `complete`, [model] is filled in where training.init
    names a public model. `notice` is called with remarks, such as the new name of a setting; by default they are warnings."""
    use_installed()
    needed = table.get("ideas", ())
    expect(filter(_is_text, needed if isinstance(needed, Sequence) else ()), _note)
    changed = override(table, assignments, Recipe, notice)
    if not complete:
        _fill_in_model(changed)
    if assignments:
        changed.pop("expected", None)  # it describes the recipe as written
        _prefer_new_source(changed, assignments)
        named = list(named_settings(assignments))
        note_kept_hidden(table.get("model", {}), changed.get("model", {}), named, notice)
        if changed.get("summary"):
            changed["summary"] = with_changes(changed["summary"], named)
    task = _task(changed)
    for name, schema in (("data", task.Data), ("objective", task.Objective)):
        if isinstance(changed.get(name), dict):
            changed[name] = _own_settings(name, changed[name], schema, task.name)
    return build(Recipe, changed, notice=notice, types={"data": task.Data, "objective": task.Objective})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _fill_in_model(table: Table) -> None:
    """A public model has dozens of settings: those that [model] leaves out are taken from training.init."""
    training, given = table.get("training"), table.get("model", {})
    init = training.get("init") if isinstance(training, dict) else None
    if not isinstance(init, str) or not isinstance(given, dict) or not (there := _imported_model(Path(init))):
        return
    if given.get("kind", there["kind"]) == there["kind"] and given.get("family", there["family"]) == there["family"]:
        own = canonical(ModelConfig, {"kind": there["kind"], "family": there["family"], **given}, "model")
        table["model"] = merged(canonical(ModelConfig, there, "model"), own)
        if there["family"] == "seq2seq":  # all public ones have one vocabulary for both sides
            table.setdefault("tokenizer", {"joint": True})


def _imported_model(path: Path) -> Table | None:
    """The [model] of an imported run or of a public model, without the layer that only its own head has."""
    own = path / "recipe.toml"
    if is_file(own):
        there = read_toml(own)
        table = there["model"] if there.get("imported") else None
        objective = there.get("objective", {}).get("kind")
    elif interop.is_model(path):
        foreign = interop.open_model(path)
        table, objective = to_table(foreign.model), foreign.family.objective
    else:
        return None
    return table and {key: value for key, value in table.items() if key != "pooler" or objective == "classification"}


def _task(table: Table) -> type[AnyTask]:
    """The task that the recipe names, or the default of its model's family; [objective] is filled in."""
    model, objective = table.get("model", {}), table.get("objective", {})
    if not isinstance(model, dict) or not isinstance(objective, dict):
        return default_task(FAMILIES[0])  # `build` refuses anything but a table
    family = model.get("family", FAMILIES[0])
    kind = objective.get("kind", default_task(family).name if family in FAMILIES else TASKS.kinds[0])
    if kind not in TASKS:
        raise ConfigError(f'objective.kind is "{kind}"; choose {either(TASKS.kinds)}.{TASKS.near(str(kind))}')
    if objective and "kind" not in objective and "family" not in model:
        raise ConfigError(f'"objective.kind" is missing; choose {either(TASKS.kinds)}.')
    table["objective"] = {"kind": kind, **objective}
    return TASKS[kind]


def _own_settings(name: str, table: Table, schema: type, kind: str) -> Table:
    """Remove settings of other tasks that have their default values, as older runs wrote them; refuse other values."""
    known = names_of(schema)
    result = dict(table)
    for key, value in table.items():
        if key in known or not (others := owners(key, name)):
            continue  # `build` refuses unknown keys
        if value != _default(name, key, others[0]):
            raise ConfigError(f'{name}.{key} only applies to {listed(others)}; objective.kind is "{kind}". Remove it.')
        del result[key]
    return result


def _default(name: str, key: str, kind: str) -> Any:
    task = TASKS[kind]
    fields = fields_of(task.Data if name == "data" else task.Objective)
    return next(field.default for field in fields if key in (field.name, *field.metadata.get("was", ())))


def _absolute(path: str | None) -> str | None:
    return path if path in (None, "-") else str(Path(str(path)).absolute())


def _prefer_new_source(table: Table, assignments: Sequence[Assignment]) -> None:
    """`--data.path=my.txt` replaces the recipe's data.name, and the other side of its pairs."""
    sources = {"name", "path", "text"}
    named = {name.removeprefix("data.") for name in named_settings(assignments)}
    given = named & sources
    if given:
        for other in (sources - given) | {"target_path"}:
            if other not in named:
                table.get("data", {}).pop(other, None)
