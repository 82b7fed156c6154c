"""JSON that a schema describes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.config import setting
from firth.decoding.constraints.constraint import LONGEST, Constraint, matching
from firth.decoding.sampling.filter import Check, Note
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.decoding.sampling.rows import Spelled

_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}  # otherwise it may write spaces for ever
_NEEDED = '{}[]":, -.0123456789truefalsn'


@dataclass(frozen=True, kw_only=True)
class JsonSchema(Constraint):
    label = "JSON schema"
    about = "Excludes tokens after which the text could not be JSON of a schema."

    json_schema: str = setting("", "a JSON schema that the text, as JSON, must satisfy; empty: any text")

    def checks(self) -> Iterable[Check]:
        yield "json_schema", len(self.json_schema) <= LONGEST, f"at most {LONGEST:,} characters"
        if self.json_schema:
            _parsed(self.json_schema)

    def acts(self) -> bool:
        return bool(self.json_schema)

    def remember(self, spelled: Spelled | None) -> Note:
        return matching(spelled, lambda spelled: _grammar(_parsed(self.json_schema), spelled))


def _grammar(schema: dict[str, Any], spelled: Spelled) -> str:
    spelling = spelled.spelling
    lacking = [] if spelling.texts is None else spelling.lacks([*_NEEDED, *_literals(schema)])
    if spelling.suffix or lacking:
        why = "tokens that are whole words" if spelling.suffix else f"no {' '.join(lacking[:10])}"
        raise ConfigError(f"json_schema needs a vocabulary that can spell JSON, but this one has {why}. Use regex instead.")
    space = '" "? ' if spelled.begins and spelling.drops_space else ""
    return f"start: {space}json\njson: %json {json.dumps({**schema, 'x-guidance': _SPACING})}\n"


def _literals(schema: dict[str, Any]) -> Iterable[str]:
    """The characters of the names and values that the schema fixes, at any depth."""
    left: list[Any] = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            properties = one.get("properties")
            names = list(properties) if isinstance(properties, dict) else []
            yield from json.dumps([names, one.get("enum"), one.get("const")], ensure_ascii=False)
            left += one.values()
        elif isinstance(one, list):
            left += one


def _parsed(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"decoding.json_schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f'decoding.json_schema is {text[:40]}; expected an object such as {{"type": "object"}}')
    return schema
