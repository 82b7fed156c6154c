"""TOML and `--a.b=value` → frozen, typed dataclasses.

A config is an ordinary frozen dataclass whose annotations are the schema. Supported types: bool, int, float, str, Literal,
`X | None`, tuple[X, ...], nested dataclasses, and unions of dataclasses distinguished by their Literal fields (`kind`).
An unknown key, a wrong type or a missing key raises a ConfigError with the full path of the key.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import tomli_w

from firth.errors import ConfigError, did_you_mean

T = TypeVar("T")
Table = dict[str, Any]
Notice = Callable[[str], None]
Assignment = str | tuple[str, Any]  # "a.b=value" as typed in a shell, or ("a.b", value)
_WHOLE = range(-(1 << 63), 1 << 63)  # TOML's integers have 64 bits
_SHOWN = 60  # characters of a value in a message


def setting(default: T, meaning: str) -> T:
    """A field whose meaning is shown in the help of commands and in docs/recipes.md."""
    return dataclasses.field(default=default, metadata={"meaning": meaning})


def renamed(*old: str, default: Any) -> Any:
    """A field that used to have other names. Recipes and runs with an old name can still be read."""
    return dataclasses.field(default=default, metadata={"was": old})


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


def with_changes(summary: str, named: Iterable[str]) -> str:
    """The summary of a configuration in which these settings were changed."""
    return f"{summary}; changed: {', '.join(dict.fromkeys(named))}"


def override(table: Mapping[str, Any], assignments: Iterable[Assignment]) -> Table:
    """A copy of `table` with each assignment applied."""
    result = _copied(table)
    for assignment in assignments:
        key, value = split_assignment(assignment)
        *path, last = key.split(".")
        place = result
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ConfigError(f'cannot set "{key}": "{name}" is a value, not a table')
        place[last] = value
    return result


def build(
    schema: type[T],
    table: Mapping[str, Any],
    at: str = "",
    notice: Notice = lambda message: None,
    types: Mapping[str, Any] | None = None,
) -> T:
    """Build an instance of the dataclass `schema` from nested dicts. `at` is the path in error messages, `notice` gets a message
    about each renamed setting, and `types` replaces the annotations of fields whose class depends on other tables."""
    hints = _hints(schema) | dict(types or {})  # type: ignore[arg-type]
    fields = {field.name: field for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    table = _with_new_names(fields, table, at, notice)
    for key in table:
        if key not in fields:
            where = f'"{at}"' if at else "the recipe"
            raise ConfigError(f'unknown key "{_join(at, key)}" in {where}.{did_you_mean(key, fields)}')
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _convert(hints[name], table[name], _join(at, name), notice)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[name] = _convert_missing(hints[name], _join(at, name))
    return schema(**values)


@functools.cache
def _hints(schema: type[Any]) -> dict[str, Any]:
    """The annotations of a dataclass. Evaluating them takes most of the time of reading a recipe."""
    return typing.get_type_hints(schema)


def _with_new_names(fields: Mapping[str, Any], table: Mapping[str, Any], at: str, notice: Notice) -> Mapping[str, Any]:
    """The table with every old name of a setting replaced by its current one."""
    result = dict(table)
    for name, field in fields.items():
        for old in field.metadata.get("was", ()):
            if old not in result:
                continue
            if name in result:
                raise ConfigError(
                    f'"{_join(at, old)}" is an old name of "{_join(at, name)}", and both are set. Remove the old one.'
                )
            notice(f"{_join(at, old)} is now called {_join(at, name)}; the old name still works")
            result[name] = result.pop(old)
    return result


def _convert_missing(hint: Any, at: str) -> Any:
    """A missing table counts as empty; a missing value is an error."""
    if any(dataclasses.is_dataclass(option) for option in _options(hint)):
        return _convert(hint, {}, at)
    raise ConfigError(f'"{at}" is missing; expected {_spelled(hint)}')


def _convert(hint: Any, value: Any, at: str, notice: Notice = lambda message: None) -> Any:
    options = _options(hint)
    expect_numbers(at, value)
    tables = [option for option in options if dataclasses.is_dataclass(option)]
    if tables and isinstance(value, Mapping):
        return build(_matching_table(tables, value, at), value, at, notice)
    for option in options:
        converted = _fit(option, value)
        if converted is not None:
            return converted
    literals = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    hint_text = did_you_mean(value, map(str, literals), listed=False) if literals and isinstance(value, str) else ""
    raise ConfigError(f'"{at}" is {_shown(value)}; expected {_spelled(hint)}.{hint_text}')


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
    if get_origin(option) is Literal:
        return value if value in get_args(option) and not isinstance(value, bool) else None
    if get_origin(option) is tuple:
        if not isinstance(value, (list, tuple)):
            return None
        items = [_fit(get_args(option)[0], item) for item in value]
        return None if None in items else tuple(items)
    if option is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is option else None


def _matching_table(tables: list[Any], value: Mapping[str, Any], at: str) -> Any:
    """The dataclass of a union whose Literal fields accept the table's values; without a `family`, the first one's is used."""
    left = tables
    discriminators = {name for table in tables for name, hint in _hints(table).items() if get_origin(hint) is Literal}
    shared = [name for name in discriminators if all(name in _hints(table) for table in tables)]
    for name in sorted(shared, key=lambda name: (name != "family", name != "kind", name)):
        choices = _choices(left, name)
        if len(left) == 1:
            break
        if name in value:
            if value[name] not in choices:
                shown = _shown(value[name])
                raise ConfigError(f'"{_join(at, name)}" is {shown}; expected one of {", ".join(map(repr, choices))}.')
            left = [table for table in left if value[name] in get_args(_hints(table)[name])]
    if len(left) > 1 and "kind" in value and "family" in shared and "family" not in value:
        usual = _literal_default(left[0], "family")
        left = [table for table in left if _literal_default(table, "family") == usual]
    if len(left) > 1:
        raise ConfigError(f'"{_join(at, "kind")}" is missing; expected one of {", ".join(map(repr, _choices(left, "kind")))}')
    return left[0]


def _choices(tables: list[Any], name: str) -> list[Any]:
    """The allowed values of the Literal field `name` over all tables, without duplicates."""
    return list(dict.fromkeys(choice for table in tables for choice in get_args(_hints(table).get(name))))


def _literal_default(table: Any, name: str) -> Any:
    return next(field.default for field in dataclasses.fields(table) if field.name == name)


def _options(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for option in get_args(hint) if option is not type(None))
    return (hint,)


def _spelled(hint: Any) -> str:
    words = []
    for option in _options(hint):
        if get_origin(option) is Literal:
            words.append("one of " + ", ".join(map(repr, get_args(option))))
        elif get_origin(option) is tuple:
            words.append(f"a list of {_spelled(get_args(option)[0])}")
        elif dataclasses.is_dataclass(option):
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
