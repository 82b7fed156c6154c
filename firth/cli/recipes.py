"""firth recipes"""

from __future__ import annotations

from typing import Any

from firth.cli.app import Json, print_json, verb


@verb()
def recipes(as_json: Json = False) -> None:
    """List the shipped recipes with their expected results."""
    from firth.experiments.shipped import shipped

    found = shipped()
    if as_json:
        print_json(found)
        return
    for name, recipe in found.items():
        print(f"{name:<24}{recipe.get('summary', '')}")
        print(f"{'':<24}{_expected(recipe.get('expected', {}))}")


def _expected(expected: dict[str, Any]) -> str:
    if "measured" not in expected:
        return "not measured yet"
    text = f"{expected['metric'].replace('_', ' ')} {expected['measured']}"
    if "published" in expected:
        text += f" (published {expected['published']})"
    return f"{text}, {expected['minutes']:g} min on {expected['hardware']}, {expected['date']}"
