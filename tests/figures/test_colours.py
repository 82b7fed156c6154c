"""One scale for all numbers with a sign: the same colours in figures and in the lab, and numbers that are readable on them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

import firth.serving.lab
from firth.figures.confusion import confusion_map
from firth.figures.figure import BLUES, DIVERGING, NEGATIVE, POSITIVE, SIGNS, Figure
from firth.figures.playground import Panel, panels_figure
from firth.figures.predictions import surprisal_strip
from firth.figures.ranking import axis_bars
from firth.figures.senses import senses_map
from firth.figures.states import states_map

PAGE = Path(firth.serving.lab.__file__).parent / "page"
STEP = Panel("scores", "q·k", ["a", "b"], ["a", "b"], [[-1.0, 0.0], [0.5, 1.0]], share=False)
SHARE = Panel("weights", "softmax", ["a"], ["a", "b"], [[0.25, 0.75]], share=True)


def _luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _between(one: str, other: str, steps: int = 40) -> list[str]:
    ends = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (one, other)]
    mixed = [[round(a + (b - a) * n / steps) for a, b in zip(*ends, strict=True)] for n in range(steps + 1)]
    return ["#{:02x}{:02x}{:02x}".format(*rgb) for rgb in mixed]


def test_above_zero_is_blue_and_below_it_orange_in_every_figure() -> None:
    assert [colour for _, colour in DIVERGING] == [NEGATIVE, "#FFFFFF", POSITIVE]
    states = states_map(["a", "b"], [0], [[-1.0, 1.0]], "h", "h").plot.data[0]
    scores, weights = panels_figure([STEP, SHARE]).plot.data[:2]
    for cells in (states, scores):
        assert (cells.colorscale[0][1], cells.colorscale[-1][1], cells.zmin, cells.zmax) == (NEGATIVE, POSITIVE, -1, 1)
    assert weights.colorscale[-1][1] == POSITIVE
    assert list(axis_bars([("up", 0.5), ("down", -0.5)], "cosine").plot.data[0].marker.color) == [POSITIVE, NEGATIVE]
    assert SIGNS in [one.text for one in panels_figure([STEP]).plot.layout.annotations]


def test_the_lab_has_the_same_two_colours_and_defines_them_once() -> None:
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    assert re.findall(r"--(positive|negative): (#\w+)", style) == [("positive", POSITIVE.lower()), ("negative", NEGATIVE.lower())]
    for path in PAGE.rglob("*.css"):
        used = re.findall(r"--[\w-]*(?:plus|minus|positive|negative): *([^;}]+)", path.read_text(encoding="utf-8"))
        assert all(value.startswith("var(") for value in used) or path.name == "style.css", path


@pytest.mark.parametrize(("zero", "ink"), [("#ffffff", "#000000"), ("#1c1c1e", "#ffffff")])  # light pages, dark pages
def test_numbers_are_readable_on_every_colour_of_the_scales(zero: str, ink: str) -> None:
    paper = re.findall(r"--paper: (#\w+)", (PAGE / "style.css").read_text(encoding="utf-8"))
    assert zero == "#ffffff" or zero in paper
    for (_, one), (_, other) in pairwise([*BLUES, *reversed(DIVERGING)]):
        for colour in _between(one.replace("#FFFFFF", zero), other.replace("#FFFFFF", zero)):
            assert contrast(colour, ink) >= 4.5, colour


@pytest.mark.parametrize(
    "figure",
    [
        panels_figure([STEP, SHARE]),
        confusion_map(["a", "b"], [[1, 2], [3, 4]]),
        senses_map("bank", ["one bank", "two banks"], [[[1.0, 0.5], [0.5, 1.0]]] * 2, 1),
        surprisal_strip(["a"], [1.0], [0.5], [1], [0.7], [[("a", 0.5)]]),
    ],
)
def test_numbers_in_cells_are_written_in_the_colour_that_is_readable_on_these_scales(figure: Figure) -> None:
    written = [cells for cells in figure.plot.data if cells.type == "heatmap" and cells.texttemplate]
    assert written
    for cells in written:
        assert cells.textfont.color == "#000000"
        assert [list(stop) for stop in cells.colorscale] in (BLUES, DIVERGING)
