"""Writes the tables of settings and of kinds in docs/recipes.md from the config classes and the collections of ideas, the scores
in docs/attention.md, the table of abilities in docs/concepts.md, the exercises in docs/exercises.md, the type of the keyword
arguments that are settings of [decoding] in firth/decoding/keywords.py, and the files in docs/own-ideas.md, which are those of
tests/ideas. The comment on a field is the meaning of the setting.

python docs/make_settings.py [PAGE]
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import sys
import textwrap
import tokenize
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import tomli_w

from firth.api.recipe import Expected, Recipe
from firth.config import choices, sub_tables
from firth.decoding.config import FILTERS, DecodingConfig
from firth.experiments.exercises.catalog import EXERCISES
from firth.experiments.exercises.exercise import Exercise
from firth.experiments.results import place
from firth.experiments.studies.recorded import RecordedStudy, recorded
from firth.experiments.studies.study import Arm, Budget, Claim, Drawing, Measure, Scale, Study, find_study, shipped_studies
from firth.figures.figure import Table
from firth.ideas import Ideas
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.score import SCORES
from firth.layers.norm import NORMS
from firth.layers.objective import OBJECTIVES
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS
from firth.models import ModelConfig
from firth.models.config import TransformerSettings
from firth.models.seq2seq_config import RecurrentDecoderConfig
from firth.serving.lab.lab_lesson import LabLesson, LessonStep
from firth.tasks import FAMILIES, TASKS, default_task
from firth.tasks.ability import ABILITIES
from firth.tasks.task import SPECIAL, AnyTask, TokenLossConfig
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data_set import DATA_SETS
from firth.training.config import TrainingConfig
from firth.training.loggers import LOGGERS
from firth.training.metric import METRICS
from firth.training.optim import OPTIMIZERS
from firth.training.schedule import SCHEDULES

KEYWORDS = Path(inspect.getfile(DecodingConfig)).with_name("keywords.py")
PAGE = Path(__file__).resolve().parent / "recipes.md"
CONCEPTS = PAGE.with_name("concepts.md")
ATTENTION = PAGE.with_name("attention.md")
OWN_IDEAS = PAGE.with_name("own-ideas.md")
STUDIES = PAGE.with_name("studies.md")
LAB = PAGE.with_name("lab.md")
EXERCISES_PAGE = PAGE.with_name("exercises.md")
EXAMPLES = PAGE.parent.parent / "tests" / "ideas"
BEGIN, END = "<!-- settings: written by docs/make_settings.py -->", "<!-- /settings -->"
BEGIN_ABILITIES, END_ABILITIES = "<!-- abilities: written by docs/make_settings.py -->", "<!-- /abilities -->"
BEGIN_RESULTS, END_RESULTS = "<!-- results: written by docs/make_settings.py -->", "<!-- /results -->"
BEGIN_EXERCISES, END_EXERCISES = "<!-- exercises: written by docs/make_settings.py -->", "<!-- /exercises -->"
BEGIN_KINDS, END_KINDS = "<!-- kinds: written by docs/make_settings.py -->", "<!-- /kinds -->"
IDEAS: dict[str, Ideas[Any]] = {
    "Attention scores": SCORES,
    "Position schemes": SCHEMES,
    "Kinds of self-attention": MIXERS,
    "Recurrent cells": CELLS,
    "Norms": NORMS,
    "Activations": ACTIVATIONS,
    "Sampling filters": FILTERS,
    "Optimisers": OPTIMIZERS,
    "Learning-rate schedules": SCHEDULES,
    "Loggers": LOGGERS,
}
MODELS: tuple[type, ...] = get_args(ModelConfig)
_TABLES = {"tokenizer": TokenizerConfig, "training": TrainingConfig, "decoding": DecodingConfig, "expected": Expected}
_PLAIN = ("summary", "imported", "ideas")  # settings of a recipe that are no tables
_CHOOSING = ("family", "kind")  # the settings that choose a class; shown once per table of the recipe
_BASES = {
    DataConfig: "Every kind of data",
    TransformerSettings: "Every Transformer",
    RecurrentDecoderConfig: "Recurrent decoders",
}
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def config_classes() -> list[type]:
    """Every class whose fields are settings of a recipe, base classes included."""
    tasks = [config for task in TASKS for config in (task.Data, task.Objective)]
    inside = [config for configs in inner_tables().values() for config in configs]
    found = [base for config in (Recipe, *tasks, *MODELS, *inside, *_TABLES.values()) for base in _lineage(config)]
    return list(dict.fromkeys(found))


def hints_of(config: type) -> dict[str, Any]:
    return typing.get_type_hints(config, include_extras=True)


def inner_tables() -> dict[str, list[type]]:
    """The tables inside [model], and the classes of each."""
    found: dict[str, dict[type, None]] = {}
    for config in MODELS:
        for name, hint in hints_of(config).items():
            found.setdefault(name, {}).update(dict.fromkeys(sub_tables(hint)))
    return {name: list(configs) for name, configs in found.items() if configs}


def keywords() -> str:
    """The module with the type of the keyword arguments that are settings of [decoding]."""
    hints = typing.get_type_hints(DecodingConfig)
    names = sorted(field.name for field in dataclasses.fields(DecodingConfig))
    lines = [f"    {name}: {_annotation(hints[name])} | None" for name in names]
    return (
        '"""The settings of [decoding] as keyword arguments. Written by docs/make_settings.py from DecodingConfig."""\n\n'
        "from __future__ import annotations\n\nfrom collections.abc import Sequence\nfrom typing import Literal, TypedDict\n\n\n"
        "class DecodingKeywords(TypedDict, total=False):\n" + "\n".join(lines) + "\n"
    )


def _annotation(hint: Any) -> str:
    """A type as it is written in a module; for a tuple one string or several."""
    if get_origin(hint) is tuple:
        return "str | Sequence[str]"
    if get_origin(hint) is Literal:
        return "Literal[" + ", ".join(f'"{one}"' for one in get_args(hint)) + "]"
    return str(hint.__name__)


def settings_page() -> str:
    """The generated part of the page."""
    parts = [_recipe(), *_data(), *_plain("tokenizer"), *_model(), *_objective()]
    parts += [part for table in ("training", "decoding", "expected") for part in _plain(table)]
    parts += [*_losses(), *_metrics()]
    return "\n" + "\n\n".join(map(_wrapped, parts)) + "\n\n"


def _wrapped(part: str) -> str:
    """A paragraph in lines of 110 columns; a heading or a table as it is."""
    return part if part.startswith(("#", "|")) else textwrap.fill(part, 110, break_long_words=False, break_on_hyphens=False)


# What the source says


def meanings(config: type) -> dict[str, str]:
    """What each field says it means, or the comment on it, its own or that of a base class."""
    found: dict[str, str] = {}
    for base in _lineage(config):
        found |= {name: comment for name, comment in _comments(base).items() if comment}
    said = {field.name: field.metadata["meaning"] for field in dataclasses.fields(config) if "meaning" in field.metadata}
    return found | said


def _comments(config: type) -> dict[str, str]:
    """The comments on the fields that this class defines: at the end of the line or, if there is none, directly above it."""
    if config.__qualname__ != config.__name__:  # made from its idea, without fields of its own
        return {}
    source = textwrap.dedent(inspect.getsource(config))
    lines = source.splitlines()
    at_line = {
        token.start[0]: _prose(token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field in definition.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            above, line = [], field.lineno - 1
            while lines[line - 1].lstrip().startswith("#"):
                above.insert(0, at_line[line])
                line -= 1
            found[field.target.id] = at_line.get(field.end_lineno or 0) or " ".join(above)
    return found


def _prose(comment: str) -> str:
    """A comment without its # and without notes to the tools."""
    parts = (part.strip() for part in comment.removeprefix("#").split("  # "))
    return "; ".join(part for part in parts if not part.startswith(("type: ignore", "noqa")))


def _lineage(config: type) -> list[type]:
    """The dataclasses that a class is made of, the most general one first."""
    return [base for base in reversed(config.__mro__) if "__dataclass_fields__" in vars(base)]


def _about(config: type) -> str:
    """The docstring; a dataclass without one has its signature there."""
    text = inspect.cleandoc(config.__doc__ or "")
    return "" if text.startswith(f"{config.__name__}(") else _escaped(" ".join(text.split()))


# Cells of a table


def _settings(table: str, config: type, *, inherited: bool = True, hidden: tuple[str, ...] | None = None) -> str:
    """A Markdown table of the settings of a class, all of them or those that its base classes lack, without those `hidden`."""
    hints, said = hints_of(config), meanings(config)
    own = inspect.get_annotations(config)
    if hidden is None:
        hidden = _CHOOSING if table in ("model", "objective") else ()
    rows = [
        (f"`{field.name}`", _type(hints[field.name]), _default(field), _meaning(table, field, said[field.name]))
        for field in dataclasses.fields(config)
        if field.name not in hidden and (inherited or field.name in own)
    ]
    return _markdown(("setting", "type", "default", "meaning"), rows) if rows else ""


def _meaning(table: str, field: dataclasses.Field[Any], comment: str) -> str:
    text = _escaped(comment)
    if f"{table}.{field.name}" in SPECIAL:
        text += f"; only for {_listed(task.name for task in TASKS if f'{table}.{field.name}' in task.uses)}"
    was = [f"model{name}" if name.startswith(".") else name for name in field.metadata.get("was", ())]
    return f"{text}; formerly {_listed(was, 'or')}" if was else text


def _type(hint: Any) -> str:
    if sub_tables(hint):
        return "table"
    options = [one for one in get_args(hint) if one is not type(None)] if _is_union(hint) else [hint]
    listed = [_code(_toml(choice)) for choice in choices(hint)]
    others = [_type_name(option) for option in options if not choices(option)]
    return " or ".join([", ".join(listed), *others] if listed else others)


def _type_name(option: Any) -> str:
    if get_origin(option) is tuple and choices(get_args(option)[0]):
        return f"list of {_type(get_args(option)[0])}"
    if get_origin(option) is tuple:
        return f"list of {_TYPES.get(get_args(option)[0], 'table')}s"
    return _TYPES.get(option, "table")


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "optional"
    if dataclasses.is_dataclass(field.default):
        return "optional"
    return "not set" if field.default is None else _code(_toml(field.default))


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _code(text: str) -> str:
    return f"`{text}`"


def _listed(names: Iterable[str], word: str = "and") -> str:
    *most, last = map(_code, names)
    return f"{', '.join(most)} {word} {last}" if most else last


def _escaped(text: str) -> str:
    """Markdown would read <eos> as HTML."""
    return re.sub(r"`[^`]*`|<\w+>", lambda found: found[0] if found[0].startswith("`") else _code(found[0]), text)


def _markdown(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *escaped))


# The tables of a recipe


def _recipe() -> str:
    hints, said = hints_of(Recipe), meanings(Recipe)
    rows = []
    for field in sorted(dataclasses.fields(Recipe), key=lambda field: field.name not in _PLAIN):  # stand before the first table
        is_table = field.name not in _PLAIN
        name = f"[`[{field.name}]`](#{field.name})" if is_table else _code(field.name)
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        default = _default(field) if not is_table else "optional" if optional else "required"
        rows.append((name, "table" if is_table else _type(hints[field.name]), default, _escaped(said[field.name])))
    return _markdown(("table or setting", "type", "default", "meaning"), rows)


def _plain(table: str) -> Iterator[str]:
    """A table whose settings are the same for every task."""
    yield f"## `[{table}]`"
    if about := _about(_TABLES[table]):
        yield about
    yield _settings(table, _TABLES[table])


def _sections(table: str, configs: Iterable[type]) -> Iterator[tuple[type, str]]:
    """Each class with the table of its own settings; a base class comes before the first class that needs it."""
    for config in dict.fromkeys(base for one in configs for base in _lineage(one)):
        yield config, _settings(table, config, inherited=False)


def _data() -> Iterator[str]:
    kinds = {task.Data: [one for one in TASKS if one.Data is task.Data] for task in TASKS}

    def heading(config: type) -> str:
        return kinds[config][0].reads.capitalize() if config in kinds else config.__name__.removesuffix("Config")

    yield "## `[data]`"
    yield f"### {_BASES[DataConfig]}"
    yield _about(DataConfig)
    for config, settings in _sections("data", kinds):
        if config is DataConfig:
            yield settings
        yield f"### {heading(config)}"
        if config is not DataConfig:
            yield _about(config)
        if config in kinds:
            yield _kind_of_data(kinds[config])
        if config is not DataConfig and settings:
            yield from _inherits(map(heading, _lineage(config)[1:-1]))
            yield settings


def _inherits(headings: Iterable[str]) -> Iterator[str]:
    if links := [_link(heading) for heading in headings]:
        yield f"The settings of {' and '.join(links)}, and:"


def _kind_of_data(tasks: list[type[AnyTask]]) -> str:
    text = f"For `objective.kind` = {_listed((_toml(task.name) for task in tasks), 'or')}."
    names = [one.name for one in DATA_SETS if one.holds == tasks[0].reads]
    return f"{text} Named data sets: {_listed(names)}." if names else text


def _link(heading: str) -> str:
    return f"[{heading[0].lower()}{heading[1:]}](#{heading.lower().replace(' ', '-')})"


def _model() -> Iterator[str]:
    yield "## `[model]`"
    yield "Two settings choose the architecture. [`[objective]`](#objective) lists the tasks that each family can learn."
    yield _markdown(("setting", "type", "default", "meaning"), _choosing_model())
    for config, settings in _sections("model", MODELS):
        if config not in MODELS:
            yield f"### {_BASES.get(config, config.__name__)}"
            yield _about(config)
            yield settings
            continue
        family, kinds = (choices(hints_of(config)[name]) for name in _CHOOSING)
        yield f"### {', '.join(map(_code, family))}: {', '.join(map(_code, kinds))}"
        yield _about(config)
        yield from _inherits(_BASES.get(base, base.__name__) for base in _lineage(config)[:-1])
        yield settings
    for name, configs in inner_tables().items():
        yield from _inner(name, configs)


def _inner(name: str, configs: list[type]) -> Iterator[str]:
    """A table inside [model]."""
    kinds = [choices(hints_of(config)["kind"])[0] for config in configs if len(configs) > 1 and _is_kind(config)]
    yield f"### `[model.{name}]`"
    if kinds:
        usual = next(field.default.kind for field in dataclasses.fields(TransformerSettings) if field.name == name)
        listed = ", ".join(_code(_toml(kind)) for kind in kinds)
        yield f"With only a kind, the table can be written as one line: `{name} = {_toml(kinds[1])}`."
        yield _markdown(("setting", "type", "default", "meaning"), [("`kind`", listed, _code(_toml(usual)), f"{name} scheme")])
    elif short := {config.short for config in configs} - {None}:
        yield f"With only its `{short.pop()}`, the table can be written as one line, `{name} = …`."
    for config in dict.fromkeys(base for one in configs for base in _lineage(one)):
        settings = _settings("model", config, inherited=False, hidden=("kind",) if kinds else ())
        if settings:
            having = [kind for kind, one in zip(kinds, configs, strict=False) if issubclass(one, config)]
            yield f"{', '.join(_code(_toml(kind)) for kind in having)}: {_about(config)}" if kinds else _about(config)
            yield settings


def _is_kind(config: type) -> bool:
    """Whether a class is that of one kind of table: its `kind` has one value."""
    return len(choices(hints_of(config).get("kind"))) == 1


def _choosing_model() -> Iterator[tuple[str, ...]]:
    for name, default in (("family", _code(_toml(FAMILIES[0]))), ("kind", "required")):
        meant: dict[str, dict[str, None]] = {}  # the choices of each meaning
        for config in MODELS:
            found = choices(hints_of(config)[name])
            meant.setdefault(meanings(config)[name], {}).update(dict.fromkeys(found))
        said = "; ".join(f"{', '.join(map(_code, of))}: {_escaped(comment)}" for comment, of in meant.items())
        every = dict.fromkeys(choice for of in meant.values() for choice in of)
        yield f"`{name}`", ", ".join(_code(_toml(choice)) for choice in every), default, said


def _objective() -> Iterator[str]:
    yield "## `[objective]`"
    usual = ", ".join(f"{_code(_toml(default_task(family).name))} for `{family}`" for family in FAMILIES)
    said = dict.fromkeys(meanings(task.Objective)["kind"] for task in TASKS)
    kinds = ", ".join(_code(_toml(kind)) for kind in TASKS.kinds)
    yield _markdown(
        ("setting", "type", "default", "meaning"), [("`kind`", kinds, f"by `model.family`: {usual}", _escaped(" or ".join(said)))]
    )
    yield "What each task learns from, and the metrics that `expected.metric` and `training.select` accept:"
    headings = ("task", "a run is", "data", "`model.family`", "`expected.metric`", "`training.select`")
    yield _markdown(
        headings,
        [
            (_code(task.name), task.noun, _link(task.reads), *(", ".join(map(_code, names)) for names in _facts(task)))
            for task in TASKS
        ],
    )
    yield "### Tasks with a loss per prediction"
    yield _about(TokenLossConfig)
    yield _settings("objective", TokenLossConfig)
    for task in TASKS:
        yield f"### `{task.name}`"
        about = _about(task.Objective)
        of_tokens = issubclass(task.Objective, TokenLossConfig)
        settings = _settings("objective", task.Objective, hidden=(*_CHOOSING, "loss") if of_tokens else None)
        if about:
            yield about
        if of_tokens:
            yield f"The settings of {_link('Tasks with a loss per prediction')}{', and:' if settings else '.'}"
        if settings or not of_tokens:
            yield settings or "No settings besides `kind`."
        if task.unsupported:
            yield (
                "Settings that cannot be changed for this task: "
                + "; ".join(f"`{setting}` ({_escaped(why)})" for setting, why in task.unsupported.items())
                + "."
            )


def _losses() -> Iterator[str]:
    yield "## Losses"
    yield "What `objective.loss` names; $y$ is the target, and $p_v$ the probability of class or token $v$:"
    rows = [(_code(one.kind), one.about, f"${one.latex}$") for one in OBJECTIVES]
    yield _markdown(("loss", "what it is", "equation"), rows)


def _metrics() -> Iterator[str]:
    yield "## Metrics"
    yield "What the metrics are that `expected.metric` and `training.select` name:"
    yield _markdown(
        ("metric", "what it is", "equation", "better"),
        [
            (_code(one.kind), one.about, f"${one.latex}$" if one.latex else "", "higher" if one.higher else "lower")
            for one in METRICS
        ],
    )


def _facts(task: type[AnyTask]) -> tuple[tuple[str, ...], ...]:
    return task.families, task.metrics, task.selecting


def abilities_table() -> str:
    """What runs can do: a line for each ability, with the places that offer it and the tasks that have it."""
    rows = []
    for one in ABILITIES:
        able, others = ([task.name for task in TASKS if (one in task.can) is has] for has in (True, False))
        tasks = ", ".join(map(_code, able)) if len(able) < len(others) else f"all but {', '.join(map(_code, others))}"
        needs = f"; with {one.needs.name}" if one.needs else ""
        places = (one.method, one.verb and f"firth {one.verb}", one.route and f"POST {one.route}")
        named = [_code(place) if place else "" for place in places]
        rows.append((one.title(), f"{one.input} → {one.output}", *named, one.room, tasks + needs))
    headings = ("a run can", "from → to", "method", "command", "HTTP", "room of the lab", "tasks")
    return f"\n{_markdown(headings, rows)}\n\n"


# The page on ideas of one's own


def with_examples(page: str) -> str:
    """The page with the files of tests/ideas in its fences of their names."""
    fence = re.compile(r'(```python title="(.+?)"\n).*?```', re.DOTALL)
    return fence.sub(lambda one: one[1] + (EXAMPLES / one[2]).read_text(encoding="utf-8") + "```", page)


def studies_page() -> str:
    """The tables of a study's file."""
    parts = [("The file", Study), ("`[arm.NAME]`", Arm), ("`[budget]`", Budget), ("`[measure.NAME]`", Measure)]
    parts += [("`[scale.NAME]`", Scale), ("`[[claim]]`", Claim), ("`[[figure]]`", Drawing)]
    return _file_tables("study", parts)


def lessons_page() -> str:
    """The tables of a lesson's file."""
    return _file_tables("lesson", [("The file of a lesson", LabLesson), ("`[[step]]`", LessonStep)])


def _file_tables(sort: str, parts: Iterable[tuple[str, type]]) -> str:
    return "\n\n".join(f"### {name}\n\n{_about(config)}\n\n{_settings(sort, config)}" for name, config in parts) + "\n"


def kinds_table(collection: Ideas[Any]) -> str:
    """The kinds that firth ships, as they describe themselves."""
    rows, is_filter = [], collection is FILTERS  # a filter is chosen by its settings
    for one in (collection[kind] for kind in collection.shipped_kinds):
        latex = one.latex.replace("|", r"\vert ").strip()  # a bar would end a cell
        named = [field.name for field in dataclasses.fields(one)] if is_filter else [one.kind]
        rows.append((", ".join(map(_code, named)), one.title(), one.about, f"${latex}$" if latex else ""))
    return _markdown(("settings" if is_filter else "kind", "name", "what it does", "equation"), rows)


def kinds_page() -> str:
    tables = [f"### {heading}\n\n{kinds_table(collection)}" for heading, collection in IDEAS.items()]
    return "\n" + "\n\n".join(tables) + "\n\n"


def scores_table() -> str:
    return f"\n{kinds_table(SCORES)}\n\n"


def exercises_table() -> str:
    """What there is to write, with the number of mistakes that have a name."""
    rows = [(_code(one.name), one.about, _equation(one), str(len(one.wrong))) for one in EXERCISES]
    return f"\n{_markdown(('exercise', 'what to write', 'equation', 'mistakes named'), rows)}\n\n"


def _equation(exercise: Exercise) -> str:
    """Its formulas as code, each on a line of its own."""
    formulas = (part for line in exercise.equation.splitlines() for part in line.split("        "))
    return "<br>".join(map(_code, formulas))


def study_results() -> str:
    """What the shipped studies gave at full scale, with the claims that did not hold."""
    return "\n" + "\n\n".join(part for name in shipped_studies() for part in _study_result(name, recorded(name))) + "\n\n"


def _study_result(name: str, full: RecordedStudy | None) -> list[str]:
    study = find_study(name)[2]
    lead = f"{study.summary} ({study.source})."
    if full is None:
        return [f"### {name}", _wrapped(f"{lead} Not run at full scale yet.")]
    made = f"{full.facts['seeds']} seeds, mean ± standard deviation; {full.made}."
    return [
        f"### {name}",
        _wrapped(" ".join((lead, *study.notes, made))),
        _markdown_of(full.table()),
        _markdown_of(full.claims()),
    ]


def _markdown_of(table: Table) -> str:
    return _markdown(tuple(table.headings), map(tuple, table.rows))


if __name__ == "__main__":
    place(PAGE, kinds_page(), BEGIN_KINDS, END_KINDS)
    place(ATTENTION, scores_table(), BEGIN_KINDS, END_KINDS)
    place(CONCEPTS, abilities_table(), BEGIN_ABILITIES, END_ABILITIES)
    place(EXERCISES_PAGE, exercises_table(), BEGIN_EXERCISES, END_EXERCISES)
    place(STUDIES, studies_page(), BEGIN, END)
    place(LAB, lessons_page(), BEGIN, END)
    place(STUDIES, study_results(), BEGIN_RESULTS, END_RESULTS)
    place(Path(sys.argv[1]) if sys.argv[1:] else PAGE, settings_page(), BEGIN, END)
    OWN_IDEAS.write_text(with_examples(OWN_IDEAS.read_text(encoding="utf-8")), encoding="utf-8")
    KEYWORDS.write_text(keywords(), encoding="utf-8")
