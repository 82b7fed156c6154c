"""The drawing of lesson 8: a query is compared with every key, and the weights mix the values."""

from __future__ import annotations

from firth.figures.diagram import Arrow, Box, Diagram, Formula, Label

QUERY, ANSWER = "Mirra", "0.99 student"
ROWS = (("Chen", "0.01", "teacher"), ("Lin", "0.01", "assistant"), ("Mira", "0.81", "student"), ("Mirta", "0.18", "student"))
_HEIGHT, _STEP = 34.0, 50.0


def drawings() -> dict[str, Diagram]:
    middle = (len(ROWS) - 1) * _STEP / 2
    query, answer = Box(0, middle, 90, _HEIGHT, (QUERY,), "solid"), Box(660, middle, 120, _HEIGHT, (ANSWER,), "green")
    keys, weights, values = (
        [Box(left, n * _STEP, width, _HEIGHT, (row[column],), tone) for n, row in enumerate(ROWS)]
        for column, (left, width, tone) in enumerate(((170, 90, "blue"), (320, 70, "orange"), (450, 120, "green")))
    )
    arrows = [Arrow((query.behind(), key.before())) for key in keys]
    arrows += [Arrow((key.behind(), weight.before())) for key, weight in zip(keys, weights, strict=True)]
    arrows += [Arrow((value.behind(), answer.before())) for value in values]
    times = [Label((weight.right + value.left) / 2, weight.y, "×") for weight, value in zip(weights, values, strict=True)]
    heads = (("query", "q"), ("keys", "k_j"), ("weights", r"\alpha_j"), ("values", "v_j"), ("output", r"\sum_j \alpha_j v_j"))
    columns = zip((query, keys[0], weights[0], values[0], answer), heads, strict=True)
    titles = [label for box, (name, symbol) in columns for label in _title(box, name, symbol)]
    described = f"The query {QUERY} is compared with the keys {', '.join(row[0] for row in ROWS)}. Their weights are "
    described += f"{', '.join(row[1] for row in ROWS)}; they multiply the values {', '.join(row[2] for row in ROWS)}. The sum "
    described += f"is {ANSWER}."
    shapes = (query, answer, *keys, *weights, *values, *arrows, *times, *titles)
    return {"soft-database": Diagram("A soft database", described, shapes)}


def _title(box: Box, name: str, symbol: str) -> tuple[Label, Label]:
    return Label(box.x, -44, name, muted=True), Label(box.x, -22, Formula(symbol))
