"""The colours of diagrams: those of all figures, mixed with the colour of the page, light or dark."""

from __future__ import annotations

from typing import Literal

from firth.figures.figure import COLOURS

Tone = Literal["plain", "blue", "vermilion", "green", "pink", "orange", "sky", "solid"]

_TONES: dict[Tone, str] = dict(zip(("blue", "vermilion", "green", "pink", "orange", "sky"), COLOURS, strict=False))


def light() -> dict[str, str]:
    """The value of each CSS variable on a light page."""
    return _values("#FFFFFF", "#1A1A1A", "#4D4D4D", share=0.2, edge=0.85)


def dark() -> dict[str, str]:
    """The value of each CSS variable on a dark page."""
    return _values("#15171C", "#F0F0F0", "#BDBDBD", share=0.38, edge=0.75)


def _values(paper: str, ink: str, muted: str, share: float, edge: float) -> dict[str, str]:
    """`share` of a colour in what fills a box, and `edge` of it, beside ink, in the line around the box."""
    values = {
        "paper": paper,
        "ink": ink,
        "muted": muted,
        "plain": muted,
        "plain-fill": paper,
        "frame-fill": mixed(ink, paper, 0.04),
    }
    for tone, colour in _TONES.items():
        values |= {tone: mixed(colour, ink, edge), f"{tone}-fill": mixed(colour, paper, share)}
    values |= {"solid": mixed(_TONES["blue"], ink, edge), "solid-fill": mixed(_TONES["blue"], paper, 0.75)}
    return values


def mixed(colour: str, other: str, share: float) -> str:
    """`share` of a colour, such as #0072B2, and the rest of another."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(share * one + (1 - share) * two):02X}" for one, two in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[n : n + 2], 16) for n in (1, 3, 5))
