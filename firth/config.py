"""TOML and `--a.b=value` → frozen, typed dataclasses.

A config is an ordinary frozen dataclass whose annotations are the schema. Supported types: bool, int, float, str, Literal,
`X | None`, tuple[X, ...], Mapping[str, X], nested dataclasses, and unions of dataclasses distinguished by their Literal fields
(`kind`).
`Annotated[str, IDEAS]` is the kind of an idea, and `Annotated[Base, IDEAS]` the table of one.
An unknown key, a wrong type or a missing key raises a ConfigError with the full path of the key.

A table of one idea inside another table, such as [model.norm], is a `SubTable`. Settings that used to stand outside of it are
still read there: a name with a dot in `renamed` is a name in the table around it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import tomli_w

from firth.errors import ConfigError, did_you_mean
from firth.ideas import Ideas, Origin, changed

T = TypeVar("T")
Table = dict[str, Any]
Notice = Callable[[str], None]
Assignment = str | tuple[str, Any]  # "a.b=value" as typed in a shell, or ("a.b", value)
_WHOLE = range(-(1 << 63), 1 << 63)  # TOML's integers have 64 bits
_SHOWN = 60  # characters of a value in a message


def setting(default: T, meaning: str) -> T:
    """A field whose meaning is shown in the help of commands and in docs/recipes.md."""
    return dataclasses.field(default=default, metadata={"meaning": meaning})


def renamed(*old: str, default: Any, always_written: bool = False, converted: Callable[[Any], Any] = lambda value: value) -> Any:
    """A field that used to have other names; ".eps" was a name in the table around this one. Recipes and runs with an old name
    can still be read. `always_written`: old runs have the default even where the setting does not apply. `converted`: the value
    under the current name that means what a value under an old name meant."""
    return dataclasses.field(default=default, metadata={"was": old, "always_written": always_written, "converted": converted})


def settings(config: Any, at: str = "", outer: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Every setting of a config, those of its sub-tables with dots: name, value, and default."""
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{at}{field.name}"
        if isinstance(value, SubTable):
            yield from settings(value, f"{name}.", field.default)
        else:  # which kind of sub-table is the default, the table around it says
            yield name, value, getattr(outer, "kind", field.default) if field.name == "kind" else field.default


def nested(settings: Mapping[str, Any]) -> Table:
    """Settings with dots in their names as tables inside tables; None means that one is not set."""
    table: Table = {}
    for name, value in settings.items():
        if value is not None:
            *path, last = name.split(".")
            place = table
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
    return table


class SubTable:
    """The settings of one idea, as a table inside another. `short` is the setting that a plain value in place of the table
    gives: norm = "rms" means [norm] kind = "rms"."""

    short: ClassVar[str | None] = "kind"


def read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not a recipe: its brackets are nested too deeply") from error
    except ValueError as error:  # also of bytes that are not UTF-8, and of numbers of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def to_toml(config: object) -> str:
    return tomli_w.dumps(to_table(config))


def to_table(config: object) -> Table:
    """The config as nested dicts. Fields that are None are left out, because TOML has no null."""
    assert dataclasses.is_dataclass(config)
    table: Table = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None:
            continue
        if dataclasses.is_dataclass(value):
            value = to_table(value)
        table[field.name] = list(value) if isinstance(value, tuple) else value
    return table


def split_assignment(assignment: Assignment) -> tuple[str, Any]:
    """The key and the value of an assignment; text is read as TOML, and as a bare string where it is not TOML."""
    if not isinstance(assignment, str):
        return assignment
    key, equals, text = assignment.lstrip("-").partition("=")
    if not equals or "." not in key or "" in key.split("."):
        raise ConfigError(f'"{assignment}" is not a setting. Write --table.key=value, for example --model.depth=6.')
    return key, _toml_value(text)


def named_settings(assignments: Iterable[Assignment]) -> Iterator[str]:
    """The settings that assignments change: of a whole table, each setting in it."""
    for assignment in assignments:
        key, value = split_assignment(assignment)
        if isinstance(value, Mapping) and value:
            yield from named_settings((f"{key}.{name}", part) for name, part in value.items())
        else:
            yield key


def split_values(text: str) -> list[Any]:
    """The values of a list without its brackets, 64,128 or gru,lstm: read as TOML, and as bare strings where it is not TOML."""
    try:
        values: list[Any] = tomllib.loads(f"values = [{text}]")["values"]
    except (ValueError, RecursionError):
        return [_toml_value(part.strip()) for part in text.split(",")]
    return values


def with_changes(summary: str, named: Iterable[str]) -> str:
    """The summary of a configuration in which these settings were changed."""
    return f"{summary}; changed: {', '.join(dict.fromkeys(named))}"


_SHORT = ""  # the key of a plain value that was assigned to a table


def override(
    table: Mapping[str, Any], assignments: Iterable[Assignment], schema: Any = None, notice: Notice = lambda message: None
) -> Table:
    """A copy of `table` with each assignment applied. With a `schema`, both may use the old names of settings."""
    result = _copied(table)
    if schema is not None:
        result = canonical(schema, result, notice=notice)
    # A table before the settings in it: --model.position.base=500 --model.position=rotary means the same in either order.
    for key, value in sorted(map(split_assignment, assignments), key=lambda one: one[0].count(".")):
        *path, last = key.split(".")
        place = result
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ConfigError(f'cannot set "{key}": "{name}" is a value, not a table')
        if schema is not None and isinstance(place.get(last), dict) and not isinstance(value, dict):
            place[last][_SHORT] = value
        else:
            place[last] = value
        if schema is not None:  # before it, no old name was left: one that is there now was assigned
            result = canonical(schema, result, notice=notice, assigned=True)
    return result


def canonical(
    schema: Any, table: Mapping[str, Any], at: str = "", notice: Notice = lambda message: None, assigned: bool = False
) -> Table:
    """The table, and the tables in it, with every setting under its current name. `assigned`: an old name wins over the current
    one."""
    result = dict(table)
    try:
        chosen = _matching_table([option for option in options_of(schema) if dataclasses.is_dataclass(option)], result, at)
    except ConfigError:  # `build` will say it
        return result
    result = _with_new_names(chosen, result, at, notice, assigned)
    for name, hint in _hints(chosen).items():
        if isinstance(result.get(name), Mapping) and any(dataclasses.is_dataclass(option) for option in options_of(hint)):
            result[name] = canonical(hint, _with_kind(chosen, name, result[name]), _join(at, name), notice, assigned)
    return result


def merged(table: Mapping[str, Any], other: Mapping[str, Any]) -> Table:
    """Both tables as one, the second before the first; a table of another kind is not merged but replaced."""
    result = dict(table)
    for name, value in other.items():
        old = result.get(name)
        same = isinstance(old, Mapping) and isinstance(value, Mapping) and value.get("kind", old.get("kind")) == old.get("kind")
        result[name] = merged(old, value) if same else value  # type: ignore[arg-type]
    return result


def _with_kind(schema: Any, name: str, table: Mapping[str, Any]) -> Table:
    """The table of a field. Where its kind decides which class it is, with the `kind` that the field has by default."""
    kind = getattr(_fields(schema)[name].default, "kind", None)
    return {"kind": kind, **table} if len(sub_tables(_hints(schema)[name])) > 1 else dict(table)


@functools.cache
def _fields(schema: Any) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(schema)}


@functools.cache
def sub_tables(hint: Any) -> tuple[Any, ...]:
    """The classes of the sub-table that a field with this annotation holds; none for other fields."""
    return tuple(option for option in options_of(hint) if isinstance(option, type) and issubclass(option, SubTable))


@functools.cache
def outer_names(hint: Any) -> dict[str, str]:
    """The settings of a sub-table that used to stand around it: the old name and the current one."""
    return {
        old.removeprefix("."): field.name
        for option in sub_tables(hint)
        for field in dataclasses.fields(option)
        for old in field.metadata.get("was", ())
        if old.startswith(".")
    }


T_class = TypeVar("T_class", bound=type)


def with_old_names(at: str) -> Callable[[T_class], T_class]:
    """A dataclass whose constructor, and `dataclasses.replace`, also accept the old names of settings that are in its sub-tables
    now, and a plain value for a sub-table: Config(heads=4, norm="layer"). `at` is its table, for messages."""

    def accepting(cls: T_class) -> T_class:
        made = cls.__init__  # type: ignore[misc]

        @functools.wraps(made)
        def __init__(self: Any, **given: Any) -> None:
            made(self, **_gathered(cls, given, at))

        cls.__init__ = __init__  # type: ignore[misc]
        return cls

    return accepting


def _gathered(schema: Any, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Keyword arguments with the settings of each sub-table gathered in it."""
    result, fields = dict(given), _fields(schema)
    for name, hint in _hints(schema).items():
        options = sub_tables(hint)
        if not options:
            continue
        outer = {new: result.pop(old) for old, new in outer_names(hint).items() if old in result}
        value = result.get(name)
        if value is None:
            value = fields[name].default
        if isinstance(value, SubTable):
            known: Mapping[str, Any] = _fields(type(value))  # type: ignore[arg-type]
            changes = {new: one for new, one in outer.items() if new in known or not _means_nothing(options, new, one)}
            _expect_known(changes, type(value), options, _join(at, name))
            result[name] = dataclasses.replace(value, **changes) if changes else value  # type: ignore[type-var]
            continue
        short = value if isinstance(value, Mapping) else {options[0].short or "kind": value}
        table = {new: one for new, one in {**short, **outer}.items() if one is not None}
        chosen = _matching_table(list(options), _with_kind(schema, name, table), _join(at, name), _collection(hint))
        table = {new: one for new, one in table.items() if new in _fields(chosen) or not _means_nothing(options, new, one)}
        _expect_known(table, chosen, options, _join(at, name))
        result[name] = chosen(**table)
    return result


def _means_nothing(options: Iterable[Any], name: str, value: Any) -> bool:
    """True if a setting of another kind of table says nothing: when all stood in one table, old runs wrote some defaults."""
    fields = [_fields(one)[name] for one in options if name in _fields(one)]
    return value is None or any(one.metadata.get("always_written") and one.default == value for one in fields)


def _expect_known(names: Iterable[str], chosen: Any, options: tuple[Any, ...], at: str) -> None:
    """Refuse settings that the class lacks; those of another class of the union are named as such."""
    known = _fields(chosen)
    for name in names:
        if name in known:
            continue
        others = [_literal_default(other, "kind") for other in options if issubclass(other, SubTable) and name in _fields(other)]
        if not others:
            where = f' in "{at}"' if at else ""
            raise ConfigError(f'unknown key "{_join(at, name)}"{where}.{did_you_mean(name, known)}')
        kinds = " or ".join(f'"{kind}"' for kind in others)
        raise ConfigError(
            f'{_join(at, name)} only applies to {at} = {kinds}; given "{_literal_default(chosen, "kind")}". '
            f"Remove {_join(at, name)}, or change {at}."
        )


def build(
    schema: type[T],
    table: Mapping[str, Any],
    at: str = "",
    notice: Notice = lambda message: None,
    types: Mapping[str, Any] | None = None,
    options: tuple[Any, ...] = (),
) -> T:
    """Build an instance of the dataclass `schema` from nested dicts. `at` is the path in error messages, `notice` gets a message
    about renamed settings, and `types` replaces the annotations of fields whose class depends on other tables. `options`: the
    classes of the union that `schema` was chosen from."""
    hints = _hints(schema) | dict(types or {})  # type: ignore[arg-type]
    fields = _fields(schema)  # type: ignore[arg-type]
    table = _with_new_names(schema, table, at, notice)
    _expect_known(table, schema, options or (schema,), at)
    values = {}
    for name, field in fields.items():
        if name in table:
            value = table[name]
            if isinstance(value, Mapping):
                value = _with_kind(schema, name, value)
            values[name] = _convert(hints[name], value, _join(at, name), notice)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[name] = _convert_missing(hints[name], _join(at, name))
    return schema(**values)


@functools.cache
def _hints(schema: type[Any]) -> dict[str, Any]:
    """The annotations of a dataclass. Evaluating them takes most of the time of reading a recipe."""
    return typing.get_type_hints(schema, include_extras=True)


def _with_new_names(schema: Any, table: Mapping[str, Any], at: str, notice: Notice, assigned: bool = False) -> Table:
    """The table with every old name of a setting replaced by its current one, and with a table where a plain value stands for
    one. `assigned`: the old name wins where both are set."""
    result, told = dict(table), []
    for name, field in _fields(schema).items():
        for old in field.metadata.get("was", ()):
            if old in result and not old.startswith("."):
                _expect_one(old, result, name, at, assigned)
                told.append((_join(at, old), _join(at, name)))
                result[name] = field.metadata["converted"](result.pop(old))
    for name, hint in _hints(schema).items():
        if (options := sub_tables(hint)) and (name in result or any(old in result for old in outer_names(hint))):
            told += _gather_table(result, name, hint, options, at, assigned)
    if told:
        old_names, new_names = (", ".join(names) for names in zip(*told, strict=True))
        verb, works = ("is", "name still works") if len(told) == 1 else ("are", "names still work")
        notice(f"{old_names} {verb} now called {new_names}; the old {works}")
    return result


def _gather_table(
    result: Table, name: str, hint: Any, options: tuple[Any, ...], at: str, assigned: bool
) -> list[tuple[str, str]]:
    """Move the settings of a sub-table that stand around it into it, in place; their old and their current names."""
    short: str | None = options[0].short
    value, told = result.get(name), []
    if value is not None and not isinstance(value, Mapping) and short is not None:
        result[name] = {short: value}
    elif isinstance(value, Mapping):
        result[name] = dict(value)
        if _SHORT in value:
            if short is None:
                raise ConfigError(f'"{_join(at, name)}" is {_shown(value[_SHORT])}; expected a table')
            given = result[name].pop(_SHORT)
            result[name] = {**({} if len(sub_tables(hint)) > 1 else result[name]), short: given}  # another kind, another table
    for old, new in outer_names(hint).items():
        if old in result and old != name:
            inner = result.setdefault(name, {})
            if not isinstance(inner, dict):
                break  # `build` refuses it
            _expect_one(old, inner, new, at, assigned, name)
            value = result.pop(old)
            of_kind = [one for one in options if "kind" not in inner or inner["kind"] in choices(_hints(one).get("kind"))]
            if any(new in _fields(one) for one in of_kind) or not _means_nothing(options, new, value):
                inner[new] = value
                told.append((_join(at, old), _join(at, f"{name}.{new}")))
    return told


def _expect_one(old: str, table: Mapping[str, Any], new: str, at: str, assigned: bool, inner: str = "") -> None:
    if new in table and not assigned:
        current = _join(at, _join(inner, new))
        raise ConfigError(f'"{_join(at, old)}" is an old name of "{current}", and both are set. Remove the old one.')


def _convert_missing(hint: Any, at: str) -> Any:
    """A missing table counts as empty; a missing value is an error."""
    if any(dataclasses.is_dataclass(option) for option in options_of(hint)):
        return _convert(hint, {}, at)
    raise ConfigError(f'"{at}" is missing; expected {_spelled(hint)}')


def _convert(hint: Any, value: Any, at: str, notice: Notice = lambda message: None) -> Any:
    options = options_of(hint)
    expect_numbers(at, value)
    tables = [option for option in options if dataclasses.is_dataclass(option)]
    if tables and isinstance(value, Mapping):
        return build(_matching_table(tables, value, at, _collection(hint)), value, at, notice, options=tuple(tables))
    for option in options:
        converted = _fit(option, value) if (inner := _inner_table(option, value)) is None else inner(at, notice)
        if converted is not None:
            return converted
    inner = _item(hint)
    alone = inner is not hint and value in choices(inner)
    advice = f' Write ["{value}"].' if alone else _advice(value, choices(inner), _collection(inner))
    raise ConfigError(f'"{at}" is {_shown(value)}; expected {_spelled(hint)}.{advice}')


def _inner_table(option: Any, value: Any) -> Callable[[str, Notice], Any] | None:
    """The conversion of a table of any keys, or of a list of tables; None for other annotations."""
    of, inner = get_origin(option), get_args(option)
    if of is Mapping and isinstance(value, Mapping):
        return lambda at, notice: {
            key: one if inner[1] is Any else _convert(inner[1], one, _join(at, key), notice) for key, one in value.items()
        }
    if of is tuple and dataclasses.is_dataclass(inner[0]) and isinstance(value, list):
        return lambda at, notice: tuple(_convert(inner[0], one, f"{at}[{n}]", notice) for n, one in enumerate(value))
    return None


def _advice(given: Any, known: Iterable[Any], ideas: Ideas[Any] | None) -> str:
    """The end of a message about a wrong choice."""
    names = list(map(str, known))
    if isinstance(given, list):
        given = next((one for one in given if one not in names), None)
    if not names or not isinstance(given, str):
        return ""
    return did_you_mean(given, names, listed=False) if ideas is None else ideas.near(given)


def _item(hint: Any) -> Any:
    """The annotation of the items of a tuple; that of anything else as it is."""
    return get_args(hint)[0] if get_origin(hint) is tuple else hint


def _collection(hint: Any) -> Ideas[Any] | None:
    return next(filter(None, map(ideas_of, _members(hint))), None)


_NO_NUMBERS = (str, bool, type(None))


def expect_numbers(at: str, value: Any) -> None:
    """Refuse a number, or a list with one, that no setting can have: nan, infinity, or a whole number of more than 64 bits. With
    a config, every field of it."""
    if dataclasses.is_dataclass(value):
        for name, one in vars(value).items():
            if type(one) not in _NO_NUMBERS:
                expect_numbers(_join(at, name), one)
    elif isinstance(value, list | tuple):
        for one in value:
            expect_numbers(at, one)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f'"{at}" is {value}; expected a finite number')
    elif isinstance(value, int) and value not in _WHOLE:
        raise ConfigError(f'"{at}" is a number of {value.bit_length()} bits; expected at most 63')


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _fit(option: Any, value: Any) -> Any:
    """`value` converted to the type `option`, or None if it does not fit. 1 is accepted as a float; True is not an int."""
    if known := choices(option):
        return value if value in known and not isinstance(value, bool) else None
    if get_origin(option) is tuple:
        if not isinstance(value, (list, tuple)):
            return None
        items = [_fit(get_args(option)[0], item) for item in value]
        return None if None in items else tuple(items)
    if option is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is option else None


def _matching_table(tables: list[Any], value: Mapping[str, Any], at: str, ideas: Ideas[Any] | None = None) -> Any:
    """The dataclass of a union whose Literal fields accept the table's values; without a `family`, the first one's is used."""
    left = tables
    shared = set[str].intersection(*(set(_hints(table)) for table in tables))
    for name in sorted(shared, key=lambda name: (name != "family", name != "kind", name)):
        if len(left) == 1:
            break
        allowed = _choices(left, name)
        if allowed and name in value:
            if value[name] not in allowed:
                shown = _shown(value[name])
                advice = _advice(value[name], allowed, ideas if name == "kind" else None)
                raise ConfigError(f'"{_join(at, name)}" is {shown}; expected one of {", ".join(map(repr, allowed))}.{advice}')
            left = [table for table in left if value[name] in choices(_hints(table)[name])]
    if len(left) > 1 and "kind" in value and "family" in shared and "family" not in value:
        usual = _literal_default(left[0], "family")
        left = [table for table in left if _literal_default(table, "family") == usual]
    if len(left) > 1:
        raise ConfigError(f'"{_join(at, "kind")}" is missing; expected one of {", ".join(map(repr, _choices(left, "kind")))}')
    return left[0]


def _choices(tables: list[Any], name: str) -> list[Any]:
    """The allowed values of the Literal field `name` over all tables, without duplicates."""
    return list(dict.fromkeys(choice for table in tables for choice in choices(_hints(table).get(name))))


def _literal_default(table: Any, name: str) -> Any:
    return next(field.default for field in dataclasses.fields(table) if field.name == name)


def choices(hint: Any) -> tuple[Any, ...]:
    """The values that an annotation lists: those of a Literal, and the kinds of ideas."""
    values: list[Any] = []
    for option in options_of(hint):
        if get_origin(option) is Literal:
            values += get_args(option)
        elif (ideas := ideas_of(option)) is not None:
            values += ideas.kinds
    return tuple(values)


def ideas_of(hint: Any) -> Ideas[Any] | None:
    """The collection that an annotation names."""
    annotations: Iterable[Any] = hint.__metadata__ if get_origin(hint) is Annotated else ()
    return next((one for one in annotations if isinstance(one, Ideas)), None)


def names_in(schema: Any, at: str = "") -> Iterator[str]:
    """The dotted names of all settings that a config may have, of every kind of its tables, and of the tables themselves."""
    for name, hint in _hints(schema).items():
        yield _join(at, name)
        for option in options_of(hint):
            if dataclasses.is_dataclass(option):
                yield from names_in(option, _join(at, name))


def number_types(schema: Any, name: str) -> set[type]:
    """Which of int and float the setting with this dotted name may be, in any kind of its tables."""
    hints, schemas = [], [schema]
    for part in name.split("."):
        hints = [_hints(one)[part] for one in schemas if part in _hints(one)]
        schemas = [option for hint in hints for option in options_of(hint) if dataclasses.is_dataclass(option)]
    return {option for hint in hints for option in options_of(hint) if option in (int, float)}


class OwnIdea(NamedTuple):
    """An idea that a config names and firth does not ship."""

    setting: str  # "attention.score"
    kind: str
    origin: Origin


def own_ideas(config: Any, table: str = "") -> Iterator[OwnIdea]:
    schema: Any = type(config)
    for name, hint in _hints(schema).items():
        value = getattr(config, name, None)
        nested = dataclasses.is_dataclass(value)
        kinds = value if isinstance(value, tuple) else [getattr(value, "kind", None) if nested else value]
        for ideas in filter(None, map(ideas_of, _members(_item(hint)))):
            for kind in kinds:
                if isinstance(kind, str) and (origin := ideas.origin(kind)) is not None:
                    yield OwnIdea(f"{table}{name}.kind" if nested else f"{table}{name}", kind, origin)
        if nested:
            yield from own_ideas(value, f"{table}{name}.")


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def options_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, and the table of each kind of an idea that has a table."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for one in get_args(hint) if one is not type(None) for option in options_of(one))
    if (ideas := ideas_of(hint)) is not None and get_args(hint)[0] is not str:
        return ideas.tables()
    return (hint,)


def _spelled(hint: Any) -> str:
    words = ["one of " + ", ".join(map(repr, known))] if (known := choices(hint)) else []
    for option in options_of(hint):
        if choices(option):
            continue
        if get_origin(option) is tuple:
            words.append(f"a list of {_spelled(get_args(option)[0])}")
        elif dataclasses.is_dataclass(option) or get_origin(option) is Mapping:
            words.append("a table")
        else:
            words.append(
                {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}.get(option, str(option))
            )
    return " or ".join(words)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _copied(table: Mapping[str, Any]) -> Table:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


changed += [one.cache_clear for one in (_hints, _fields, sub_tables, outer_names)]
