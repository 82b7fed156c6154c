"""firth recipes"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.experiments.results import Result


@verb()
def recipes(as_json: Json = False) -> None:
    """List the shipped recipes with their expected results."""
    from firth.experiments.results import result
    from firth.shipped import shipped

    listed = shipped()
    if as_json:
        print_json(listed)
        return
    margin = max(map(len, listed)) + 2
    for name, recipe in listed.items():
        print(f"{name:<{margin}}{recipe.get('summary', '')}")
        print(f"{'':<{margin}}{_facts(result(name, recipe))}")


def _facts(result: Result | None) -> str:
    from firth.experiments.results import duration, row

    if result is None:
        return "not measured yet"
    cells = row(result)
    facts = [
        f"{cells.metric} {cells.measured}" if cells.measured else f"{cells.metric} not measured yet",
        f"published {cells.published}" if cells.published else "",
        cells.gap,
        duration(result),
    ]
    return ", ".join(fact for fact in facts if fact)
