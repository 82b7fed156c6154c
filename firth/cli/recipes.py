"""firth recipes"""

from __future__ import annotations

from firth.cli.app import Json, print_json, verb


@verb()
def recipes(as_json: Json = False) -> None:
    """List the shipped recipes with their expected results."""
    from firth.experiments.shipped import shipped

    found = shipped()
    if as_json:
        print_json(found)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("recipe", "expected", "measured on", "what it is"):
        table.add_column(heading, no_wrap=heading == "recipe")
    for name, recipe in found.items():
        expected = recipe.get("expected", {})
        result = f"{expected['metric']} {expected['measured']}" if "measured" in expected else "—"
        where = ", ".join(str(expected[key]) for key in ("hardware", "date") if key in expected)
        table.add_row(name, result, where or "—", Text(recipe.get("summary", "")))
    Console().print(table)
