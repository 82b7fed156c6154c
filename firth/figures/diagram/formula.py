"""Formulas as lines of text: LaTeX becomes letters of Unicode, italic or upright, raised or lowered.

A line has no room for fractions: they are written with a stroke, a / b. A formula with a command that is not known here is shown
as its source, so that nothing is left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

Level = Literal[-1, 0, 1]  # lowered, on the line, raised
_SPACE = "\u00a0"  # which SVG keeps

_SYMBOLS = {
    "odot": "⊙", "cdot": "·", "times": "×", "top": "⊤", "sigma": "σ", "varphi": "φ", "phi": "φ", "Phi": "Φ", "gamma": "γ",
    "beta": "β", "alpha": "α", "epsilon": "ε", "varepsilon": "ε", "lambda": "λ", "mu": "μ", "omega": "ω", "tau": "τ", "pi": "π",
    "theta": "θ", "delta": "δ", "eta": "η", "psi": "ψ", "rho": "ρ", "sum": "∑", "prod": "∏", "infty": "∞", "le": "≤", "leq": "≤",
    "ge": "≥", "geq": "≥", "ne": "≠", "in": "∈", "to": "→", "rightarrow": "→", "leftarrow": "←", "ldots": "…", "dots": "…",
    "cdots": "…", "lVert": "‖", "rVert": "‖", "Vert": "‖", "|": "‖", "vert": "|", "lvert": "|", "rvert": "|", "partial": "∂",
    "nabla": "∇", "ell": "ℓ", "prime": "′", "oplus": "⊕", "mid": "|", "approx": "≈", "sim": "∼", "{": "{", "}": "}", "_": "_",
    "lfloor": "⌊", "rfloor": "⌋", "langle": "⟨", "rangle": "⟩",
}  # fmt: skip
_FUNCTIONS = {"tanh", "sin", "cos", "log", "ln", "exp", "max", "min", "arg", "sinh", "cosh", "det", "Pr"}
_SPACES = {",": "\u2009", ";": _SPACE, ":": _SPACE, " ": _SPACE, "!": "", "quad": 2 * _SPACE, "qquad": 4 * _SPACE}
_UPRIGHT = {"mathrm", "text", "operatorname", "textrm"}
_ITALIC = {"mathbf", "boldsymbol", "mathit", "mathcal", "mathbb"}
_ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "bar": "\u0304", "vec": "\u20d7", "dot": "\u0307"}
_NOTHING = {"left", "right", "displaystyle", "big", "Big", "bigl", "bigr", "limits"}
_SPACED = set("=+−·⊙×→←≤≥≠∈⊕≈∼<>")  # with space around them on the line
_TOKENS = re.compile(r"\\[A-Za-z]+\s*|\\.|\s+|.", re.S)


class Glyphs(NamedTuple):
    """Neighbouring letters that look alike."""

    text: str
    level: Level = 0
    italic: bool = False
    mono: bool = False


@dataclass(frozen=True)
class Formula:
    """A formula in LaTeX."""

    latex: str

    @property
    def glyphs(self) -> tuple[Glyphs, ...]:
        return glyphs_of(self.latex)

    def __str__(self) -> str:
        """As plain text, for descriptions: h_t = …"""
        marks = {-1: "_", 0: "", 1: "^"}
        parts = []
        for level, glyphs in itertools.groupby(self.glyphs, lambda one: one.level):
            text = "".join(one.text for one in glyphs)
            parts.append(marks[level] + (f"{{{text}}}" if level and len(text) > 1 else text))
        return "".join(parts).replace(_SPACE, " ").replace("^⊤", "ᵀ")


class _Unknown(Exception):
    """A command that is not known here."""


@lru_cache(maxsize=512)
def glyphs_of(latex: str) -> tuple[Glyphs, ...]:
    try:
        found = list(_read(iter(_tokens(latex)), 0, upright=False))
    except (_Unknown, RecursionError):
        return (Glyphs(latex, mono=True),)
    return tuple(_joined(found))


def _tokens(latex: str) -> list[str]:
    return [token.strip() or _BLANK for token in _TOKENS.findall(latex)]


_BLANK = " "


def _read(tokens: Iterator[str], level: Level, upright: bool, one: bool = False) -> Iterator[Glyphs]:
    """The glyphs up to the end of a group, or of `one` argument."""
    for token in tokens:
        if token == "}":
            return
        if token == _BLANK:
            if upright and not one:
                yield Glyphs(_SPACE, level)
            continue
        yield from _of_token(token, tokens, level, upright)
        if one:
            return


def _of_token(token: str, tokens: Iterator[str], level: Level, upright: bool) -> Iterator[Glyphs]:
    if token == "{":
        yield from _read(tokens, level, upright)
    elif token in "_^":
        yield from _read(tokens, _shifted(level, token), upright, one=True)
    elif token.startswith("\\"):
        yield from _command(token[1:], tokens, level, upright)
    else:
        yield _letter({"-": "−", "'": "′", "*": "∗", "~": _SPACE}.get(token, token), level, upright)


def _shifted(level: Level, token: str) -> Level:
    return level or (-1 if token == "_" else 1)


def _command(name: str, tokens: Iterator[str], level: Level, upright: bool) -> Iterator[Glyphs]:
    if name in _SYMBOLS:
        yield _letter(_SYMBOLS[name], level, upright)
    elif name in _FUNCTIONS:
        yield Glyphs(name, level)
    elif name in _SPACES:
        yield Glyphs(_SPACES[name], level)
    elif name in _UPRIGHT or name in _ITALIC:
        yield from _read(tokens, level, name in _UPRIGHT, one=True)
    elif name in _ACCENTS:
        first, *rest = _argument(tokens, level, upright)
        yield first._replace(text=first.text[:1] + _ACCENTS[name] + first.text[1:])
        yield from rest
    elif name in ("frac", "tfrac", "dfrac"):
        above, below = _argument(tokens, level, upright), _argument(tokens, level, upright)
        half = [one.text for one in above + below] == ["1", "2"]
        yield from [Glyphs("½", level)] if half else (*_grouped(above), Glyphs("/", level), *_grouped(below))
    elif name == "sqrt":
        yield from (Glyphs("√", level), *_grouped(_argument(tokens, level, upright)))
    elif name not in _NOTHING:
        raise _Unknown(name)


def _argument(tokens: Iterator[str], level: Level, upright: bool) -> list[Glyphs]:
    found = list(_read(tokens, level, upright, one=True))
    if not found:
        raise _Unknown("an argument is missing")
    return found


def _grouped(part: list[Glyphs]) -> list[Glyphs]:
    """A numerator or denominator, in brackets if it is more than one factor."""
    on_the_line = sum(len(one.text) for one in part if one.level == part[0].level)
    return part if on_the_line == 1 else [Glyphs("(", part[0].level), *part, Glyphs(")", part[0].level)]


def _letter(symbol: str, level: Level, upright: bool) -> Glyphs:
    if upright:
        return Glyphs(symbol, level)
    if symbol in _SPACED and level == 0:
        return Glyphs(f"{_SPACE}{symbol}{_SPACE}", level)
    if symbol == ",":
        return Glyphs(f",{_SPACE}" if level == 0 else ",", level)
    return Glyphs(symbol, level, italic=symbol.isalpha() and symbol.isascii())


def _joined(found: list[Glyphs]) -> Iterator[Glyphs]:
    """Neighbours that look alike as one; after the name of a function a space, unless a bracket follows."""
    pending: Glyphs | None = None
    for n, one in enumerate(found):
        after = found[n + 1].text[:1] if n + 1 < len(found) else ""
        if n == 0 and one.text.strip(_SPACE) == "−":  # a sign
            one = one._replace(text="−")  # noqa: PLW2901
        if one.text in _FUNCTIONS and after not in ("", "(", "_"):
            one = one._replace(text=one.text + _SPACE)  # noqa: PLW2901
        if pending is not None and pending[1:] == one[1:]:
            pending = pending._replace(text=pending.text + one.text)
            continue
        if pending is not None:
            yield pending
        pending = one
    if pending is not None:
        yield pending
