"""Diagrams: boxes, arrows and labels with places of their own, written as SVG. Text stays text, and formulas are set from LaTeX.

shapes.py has the parts of a diagram, formula.py reads LaTeX, palette.py has the colours, and diagram.py writes the file.
"""

from __future__ import annotations

from firth.figures.diagram.diagram import SIZES, THEMES, Diagram, Size, Theme
from firth.figures.diagram.formula import Formula
from firth.figures.diagram.palette import Tone
from firth.figures.diagram.shapes import Arrow, Box, Frame, Label, Point, Rect, Words, box_height, box_width, extent

__all__ = [
    "SIZES", "THEMES", "Arrow", "Box", "Diagram", "Formula", "Frame", "Label", "Point", "Rect", "Size", "Theme", "Tone", "Words",
    "box_height", "box_width", "extent",
]  # fmt: skip
