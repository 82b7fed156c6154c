"""A diagram as SVG: one file for light and dark pages, which any program that shows SVG can draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from firth import files
from firth.errors import ConfigError
from firth.figures.diagram import palette
from firth.figures.diagram.formula import Formula, Glyphs
from firth.figures.diagram.shapes import SMALLER, Arrow, Box, Frame, Label, Point, Rect, Shapes, Words, extent

Theme = Literal["auto", "light", "dark"]
Size = Literal["page", "slide"]
THEMES: tuple[Theme, ...] = get_args(Theme)
SIZES: tuple[Size, ...] = get_args(Size)
SLIDE = 1280, 720  # pixels that a slide fills by itself
_MARGIN = 18.0
_BASELINE = 0.35  # of a line, below its middle, in units of its size
_SHIFTS = {-1: 0.28, 0: 0.0, 1: -0.42}  # of lowered and raised letters, downwards, in units of the size on the line
_HEAD = 7.0  # length of the head of an arrow
_FONT = "'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"


@dataclass(frozen=True, repr=False)
class Diagram:
    """A drawing. `.svg()` is its text, `.save(path)` writes it, and a notebook shows it."""

    title: str
    description: str  # in words, for readers who do not see it
    shapes: tuple[Shapes, ...]
    theme: Theme = "auto"
    slide: Rect | None = None  # the slide that the shapes stand on; None: a page around them
    language: str = "en"  # of the words

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, with a margin, in the unit of the shapes, which is a pixel on a page."""
        if self.slide is not None:
            return self.slide.width, self.slide.height
        around = extent(self.shapes)
        return math.ceil(around.width + 2 * _MARGIN), math.ceil(around.height + 2 * _MARGIN)

    def placed(self) -> tuple[Shapes, ...]:
        """The shapes where they stand in the file, whose upper left corner is 0, 0."""
        if self.slide is not None:
            return tuple(shape.moved(-self.slide.left, -self.slide.top) for shape in self.shapes)
        around = extent(self.shapes)
        return tuple(shape.moved(_MARGIN - around.left, _MARGIN - around.top) for shape in self.shapes)

    def svg(self, theme: Theme | None = None) -> str:
        """The drawing as SVG. `theme`: "light", "dark", or "auto", which follows the reader's screen."""
        chosen = expected_theme(self.theme if theme is None else theme)
        width, height = map(_number, self.size)
        shown = (width, height) if self.slide is None else SLIDE
        scope, plain = f"firth-drawing-{chosen}", palette.dark() if chosen == "dark" else palette.light()
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="{scope}" role="img" lang="{escape(self.language)}" '
        head += f'viewBox="0 0 {width} {height}" width="{shown[0]}" height="{shown[1]}" font-family="{_FONT}">'
        parts = (part for shape in self.placed() for part in _drawn(shape, plain))
        lines = [
            head,
            f"<title>{escape(self.title)}</title>",
            f"<desc>{escape(self.description)}</desc>",
            f"<style>{_style(scope, chosen)}</style>",
            f'<rect class="paper" width="{width}" height="{height}" fill="{plain["paper"]}"/>',
            *parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Save as SVG; `path` ends in .svg."""
        with files.replacing(expected_svg(path)) as temporary:
            temporary.write_text(self.svg(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<Diagram: {self.title}; .svg() is its text, .save(path) writes it>"


def expected_svg(path: str | PathLike[str]) -> Path:
    """The path of a drawing. Raises unless it ends in .svg; call it before anything is read."""
    if Path(path).suffix.lower() != ".svg":
        raise ConfigError(f'a drawing is saved as SVG, and "{path}" does not end in .svg. Give a name that does.')
    return Path(path)


def expected_theme(name: str) -> Theme:
    if name not in THEMES:
        raise ConfigError(f'the theme "{name}" is not known; choose one of: {", ".join(THEMES)}.')
    return name


def expected_size(name: str) -> Size:
    if name not in SIZES:
        raise ConfigError(f'the size "{name}" is not known; choose one of: {", ".join(SIZES)}.')
    return name


def _style(scope: str, theme: Theme) -> str:
    """Classes, with the colours as variables. They apply to drawings of this theme only: a page may hold several."""
    values = palette.dark() if theme == "dark" else palette.light()
    rules = [_rule(f".{scope}", {f"--{name}": value for name, value in values.items()})]
    if theme == "auto":
        night = _rule(f".{scope}", {f"--{name}": value for name, value in palette.dark().items()})
        rules.append(f"@media (prefers-color-scheme: dark){{{night}}}")
    tones = [name for name in values if f"{name}-fill" in values]
    rules += [_rule(f".{scope} .paper", {"fill": "var(--paper)"})]
    for name in ("ink", "muted"):
        rules.append(_rule(f".{scope} .{name}", {"fill": f"var(--{name})"}))
    rules.append(_rule(f".{scope} .frame", {"fill": "var(--frame-fill)", "stroke": "var(--muted)"}))
    for tone in tones:
        rules.append(_rule(f".{scope} .{tone}", {"fill": f"var(--{tone}-fill)", "stroke": f"var(--{tone})"}))
    rules.append(_rule(f".{scope} .line", {"fill": "none", "stroke": "var(--muted)"}))
    rules.append(_rule(f".{scope} .head", {"fill": "var(--muted)"}))
    return "".join(rules)


def _rule(selector: str, values: Mapping[str, str]) -> str:
    return f"{selector}{{{';'.join(f'{name}:{value}' for name, value in values.items())}}}"


def _drawn(shape: Shapes, plain: Mapping[str, str]) -> Iterator[str]:
    """The elements of a shape. Programs that do not know CSS variables use the colours in the attributes."""
    match shape:
        case Box():
            yield from _box(shape, plain)
        case Frame():
            yield (
                f'<rect class="frame" {_place(shape)} rx="8" fill="{plain["frame-fill"]}" stroke="{plain["muted"]}" '
                'stroke-dasharray="5 4"/>'
            )
        case Label():
            yield _text(shape, plain)
        case Arrow():
            yield from _arrow(shape, plain)


def _box(box: Box, plain: Mapping[str, str]) -> Iterator[str]:
    radius = min(box.width, box.height) / 2 if box.round else min(5.0, 0.2 * min(box.width, box.height))
    tone = box.tone if box.filled else "plain"
    colours = f'fill="{plain[f"{tone}-fill"]}" stroke="{plain[tone]}"'
    yield f'<rect class="{tone}" {_place(box)} rx="{_number(radius)}" {colours} stroke-width="1.3"/>'
    for label in box.labels():
        yield _text(label, plain)


def _place(box: Box | Frame) -> str:
    x, y, width, height = map(_number, (box.left, box.top, box.width, box.height))
    return f'x="{x}" y="{y}" width="{width}" height="{height}"'


def _text(label: Label, plain: Mapping[str, str]) -> str:
    kind = "muted" if label.muted else "ink"
    weight = ' font-weight="bold"' if label.bold else ""
    place = f'x="{_number(label.x)}" y="{_number(label.y + _BASELINE * label.size)}"'
    style = f'font-size="{_number(label.size)}" text-anchor="{label.anchor}"{weight} fill="{plain[kind]}"'
    return f'<text class="{kind}" {place} {style}>{_content(label.words, label.size)}</text>'


def _content(words: Words, size: float) -> str:
    return _spans(words.glyphs, size) if isinstance(words, Formula) else escape(words)


def _spans(glyphs: Iterable[Glyphs], size: float) -> str:
    parts, shift = [], 0.0
    for one in glyphs:
        down = _SHIFTS[one.level] * size
        attributes = f' dy="{_number(down - shift)}"' if down != shift else ""
        attributes += f' font-size="{_number(SMALLER * size)}"' if one.level else ""
        attributes += ' font-style="italic"' if one.italic else ""
        attributes += ' font-family="monospace"' if one.mono else ""
        parts.append(f"<tspan{attributes}>{escape(one.text)}</tspan>")
        shift = down
    return "".join(parts)


def _arrow(of: Arrow, plain: Mapping[str, str]) -> Iterator[str]:
    *_, before, end = of.points
    length = math.dist(before, end) or 1.0
    along = Point((end.x - before.x) / length, (end.y - before.y) / length)
    last = Point(end.x - _HEAD * 0.8 * along.x, end.y - _HEAD * 0.8 * along.y) if of.head else end
    path = " ".join(f"{_number(x)},{_number(y)}" for x, y in (*of.points[:-1], last))
    dashes = ' stroke-dasharray="4 3"' if of.dashed else ""
    yield f'<polyline class="line" points="{path}" fill="none" stroke="{plain["muted"]}" stroke-width="1.4"{dashes}/>'
    if of.head:
        base = Point(end.x - _HEAD * along.x, end.y - _HEAD * along.y)
        side = 0.45 * _HEAD
        corners = (
            end,
            Point(base.x - side * along.y, base.y + side * along.x),
            Point(base.x + side * along.y, base.y - side * along.x),
        )
        places = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
        yield f'<polygon class="head" points="{places}" fill="{plain["muted"]}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
