"""Claims: inequalities between measures of arms, checked seed by seed.

    check:   long(rnnsearch) - long(rnnenc) >= 0.3
    margin:  m_s = long(rnnsearch)_s − long(rnnenc)_s − 0.3 for each seed s
    held:    mean_s m_s ≥ 0;    standard error: s.d.(m) / √S

The models of one seed read the same data in the same order, so the margin is computed for each seed, not from the means.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, did_you_mean
from firth.experiments.expressions import ARITHMETIC, parsed

Values = NDArray[np.float64]  # one per seed; nan where it was not measured
Table = Mapping[str, Mapping[str, Values]]  # measure → arm → values

_FUNCTIONS: Mapping[str, Callable[..., Values]] = {
    "mean": lambda *values: np.mean(values, axis=0),
    "min": lambda *values: np.min(values, axis=0),
    "max": lambda *values: np.max(values, axis=0),
    "abs": np.abs,
    "log": np.log,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[Values, Values], Values]] = {
    ast.GtE: np.subtract,
    ast.Gt: np.subtract,
    ast.LtE: lambda left, right: right - left,
    ast.Lt: lambda left, right: right - left,
}


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim held in our runs."""

    held: bool | None  # None if something in it was not measured
    margin: float | None  # the mean over seeds by which it held; negative if it did not
    error: float | None  # the standard error of the margin; None with one seed

    def text(self) -> str:
        if self.held is None or self.margin is None:
            return "not measured"
        word = "held" if self.held else "NOT HELD"
        if self.error is None:
            return f"{word}, margin {_signed(self.margin)} (one seed)"
        return f"{word}, margin {_signed(self.margin)} ± {_short(self.error)}"


def _signed(margin: float) -> str:
    return f"{margin:+,.0f}" if abs(margin) >= 100 else f"{margin:+.3g}"


def _short(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"


def expect_readable(check: str, measures: Sequence[str], arms: Sequence[str]) -> None:
    """Refuse a claim that cannot be computed from these measures of these arms."""
    ones = {measure: {arm: np.ones(1) for arm in arms} for measure in measures}
    _margins(check, ones)


def verdict(check: str, table: Table) -> ClaimVerdict:
    with np.errstate(all="ignore"):
        margins = _margins(check, table)
    least = min(margins, key=lambda margin: -math.inf if math.isnan(margin.mean()) else float(margin.mean()))
    if not np.isfinite(least).all():
        return ClaimVerdict(None, None, None)
    error = float(least.std(ddof=1) / math.sqrt(len(least))) if len(least) > 1 else None
    return ClaimVerdict(_holds(check, margins), float(least.mean()), error)


def _holds(check: str, margins: Sequence[Values]) -> bool:
    operators = _parsed(check).ops
    means = [float(margin.mean()) for margin in margins]
    return all(mean > 0 if isinstance(op, ast.Gt | ast.Lt) else mean >= 0 for op, mean in zip(operators, means, strict=True))


def _parsed(check: str) -> ast.Compare:
    tree = parsed(check, "a claim")
    if not isinstance(tree, ast.Compare) or any(type(op) not in _ORDER for op in tree.ops):
        raise ConfigError(f'the claim "{check}" is not an inequality. Write one such as "loss(lstm) < loss(rnn)".')
    return tree


def _margins(check: str, table: Table) -> list[Values]:
    """One for each inequality of a chain."""
    tree = _parsed(check)
    sides = [_value(side, table, check) for side in (tree.left, *tree.comparators)]
    pairs = zip(tree.ops, sides, sides[1:], strict=False)
    return [_ORDER[type(op)](left, right) for op, left, right in pairs]


def _value(node: ast.expr, table: Table, check: str) -> Values:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            seeds = len(next(iter(next(iter(table.values())).values())))
            return np.full(seeds, float(number))
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, table, check)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            combined: Values = ARITHMETIC[type(node.op)](_value(node.left, table, check), _value(node.right, table, check))
            return combined
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, args, table, check)
    known = ", ".join([*_FUNCTIONS, *_OVER_ARMS])
    raise ConfigError(f'the claim "{check}" contains "{ast.unparse(node)[:40]}". Use measure(arm), numbers, + - * / and {known}.')


def _called(name: str, args: Sequence[ast.expr], table: Table, check: str) -> Values:
    if name in table:
        if len(args) != 1:
            raise ConfigError(f'the claim "{check}" gives {name} {len(args)} arms; expected one')
        return table[name][_arm(args[0], table[name], check)]
    if name in _OVER_ARMS:
        return _over_arms(name, args, table, check)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*(_value(one, table, check) for one in args))
    known = [*table, *_FUNCTIONS, *_OVER_ARMS]
    raise ConfigError(f'the claim "{check}" asks for {name}, which the study does not measure.{did_you_mean(name, known)}')


def _over_arms(name: str, args: Sequence[ast.expr], table: Table, check: str) -> Values:
    """slope(y, x, arm, …), argmin(y, x, arm, …) or vertex(y, x, arm, …), by default over all arms."""
    if len(args) < 2 or not all(isinstance(one, ast.Name) and one.id in table for one in args[:2]):
        raise ConfigError(f'the claim "{check}" needs {name}(measure, measure, arm, …)')
    y, x = (table[one.id] for one in args[:2] if isinstance(one, ast.Name))
    arms = [_arm(one, y, check) for one in args[2:]] or list(y)
    y_as, x_as = (np.array([of[arm] for arm in arms]) for of in (y, x))  # arms × seeds
    return _OVER_ARMS[name](y_as, x_as)


def _slope(y_as: Values, x_as: Values) -> Values:
    """The exponent b of y = a · x^b, by least squares of log y on log x."""
    log_y, log_x = np.log(y_as), np.log(x_as)
    away = log_x - log_x.mean(axis=0)
    total = (away**2).sum(axis=0)
    slopes: Values = (away * log_y).sum(axis=0) / np.where(total == 0, 1, total)
    return slopes


def _argmin(y_as: Values, x_as: Values) -> Values:
    """The x of the arm with the lowest y. An arm whose x is known has no y if it diverged: then it is not the lowest."""
    compared = np.where(np.isnan(y_as), np.inf, y_as)
    lowest: Values = np.take_along_axis(x_as, compared.argmin(axis=0)[None], axis=0)[0]
    unknown = np.isnan(x_as).any(axis=0) | np.isinf(compared).all(axis=0)
    return np.where(unknown, np.nan, lowest)


def _vertex(y_as: Values, x_as: Values) -> Values:
    """The x of the minimum of the parabola y = a (log x)² + b log x + c with the least squared error (Hoffmann et al. 2022,
    approach 2). Unknown if the parabola has no minimum."""
    vertices = np.full(y_as.shape[1], np.nan)
    for seed, (y_a, x_a) in enumerate(zip(y_as.T, x_as.T, strict=True)):
        middle = np.log(x_a).mean()
        squares_a3 = np.vander(np.log(x_a) - middle, 3)
        if np.isfinite(squares_a3).all() and np.linalg.matrix_rank(squares_a3) == 3:
            a, b, _ = np.linalg.lstsq(squares_a3, y_a, rcond=None)[0]
            vertices[seed] = np.exp(middle - b / (2 * a)) if a > 0 else np.nan
    return vertices


_OVER_ARMS: Mapping[str, Callable[[Values, Values], Values]] = {"slope": _slope, "argmin": _argmin, "vertex": _vertex}


def _arm(node: ast.expr, known: Mapping[str, Values], check: str) -> str:
    """rnnsearch, or a name that is no Python name, in quotes: "2-64"."""
    name = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else None
    if not isinstance(name, str) or name not in known:
        shown = ast.unparse(node)[:40]
        raise ConfigError(
            f'the claim "{check}" names the arm {shown}, which the study does not have.{did_you_mean(shown, known)}'
        )
    return name
