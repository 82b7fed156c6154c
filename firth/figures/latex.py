"""Tables for papers."""

from __future__ import annotations

from firth.figures.figure import Table

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"} | {"±": r"$\pm$", "–": "--", "\\": r"\textbackslash{}"}
)


def latex_table(table: Table) -> str:
    """A table in LaTeX; it needs the package booktabs."""
    columns = "l" + "r" * (len(table.headings) - 1)
    head, *body = (" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (table.headings, *table.rows))
    lines = (rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}")
    return "\n".join(lines) + "\n"
