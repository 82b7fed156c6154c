"""Matrices that you give the playground: of projections, or the word vectors themselves.

    X    T × d     the word vectors, one row per word
    W_q  H·D × d   q = W_q x                              Q  d × d   q = Q x, k = x: the score is k · Q q
    W_k  H·D × d   k = W_k x
    W_v  H·E × d   v = W_v x                              P  m × d   v = P x
    W_o  m × H·E   y = W_o [o_1 … o_H]

In Python a matrix is nested lists or an array; in a text it is JSON, [[1, 0], [0, 1]], or rows of numbers, 1 0; 0 1, which line
breaks may separate as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firth.errors import ConfigError, DataError, did_you_mean

Array = npt.NDArray[np.float64]
Given = Mapping[str, Any]  # name → nested lists, an array, or a text

NAMES = ("X", "W_q", "W_k", "W_v", "W_o", "Q", "P")
PROJECTIONS = {"W_q": "q", "Q": "q", "W_k": "k", "W_v": "v", "P": "v"}  # matrix → the vectors that it computes
LARGEST = 1024  # rows or columns
LONGEST = 4_000_000  # characters of a text
_INSTEAD = {"Q": ("W_q", "W_k"), "P": ("W_v",)}  # the matrices of the lectures, and those that they replace


@dataclass(frozen=True, eq=False)
class Projected:
    q_Tn: Array
    k_Tn: Array
    v_Tm: Array
    used: Mapping[str, Array]  # the matrices, by name


def own_matrices(given: Given) -> dict[str, Array]:
    """The matrices under their names, finite and two-dimensional. W^Q, WQ and w_q are W_q as well."""
    matrices: dict[str, Array] = {}
    for name, value in given.items():
        known = _name(name)
        if known in matrices:
            raise ConfigError(f"matrix {known} is defined twice. Remove one of them.")
        matrices[known] = _matrix(known, parsed(known, value) if isinstance(value, str) else value)
    for name, others in _INSTEAD.items():
        if name in matrices and (also := [other for other in others if other in matrices]):
            raise ConfigError(f"{name} cannot be combined with {' and '.join(also)}. Remove one of them.")
    return matrices


def read_matrices(text: str) -> dict[str, Array]:
    """Several matrices: a JSON object, {"W_q": [[1, 0], [0, 1]]}, or a line for each, W_q = 1 0; 0 1."""
    if len(text) > LONGEST:
        raise DataError(f"the matrices have {len(text):,} characters; expected at most {LONGEST:,}")
    if text.lstrip().startswith("{"):
        given = _json("the matrices", text)
        return own_matrices(given)
    named: dict[str, str] = {}
    for n, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        name, equals, rows = line.partition("=")
        if not equals:
            raise DataError(f'matrix {n} is "{_short(line)}"; expected its name and its rows, such as "W_q = 1 0; 0 1"')
        if name.strip() in named:
            raise ConfigError(f"matrix {name.strip()} is defined twice. Remove one of them.")
        named[name.strip()] = rows
    return own_matrices(named)


def parsed(name: str, text: str) -> Any:
    """The numbers of one matrix in a text, as nested lists."""
    if len(text) > LONGEST:
        raise DataError(f"{name} has {len(text):,} characters; expected at most {LONGEST:,}")
    if text.lstrip().startswith("["):
        return _json(name, text)
    rows = [re.split(r"[,\s]+", row.strip().strip(",")) for row in re.split(r"[;\n]", text) if row.strip()]
    try:
        return [[float(cell) for cell in row] for row in rows]
    except ValueError:
        wrong = next(cell for row in rows for cell in row if not _is_number(cell))
        raise DataError(f'{name} has "{_short(wrong)}" among its numbers; expected rows such as "1 0; 0 1"') from None


def dimension(given: Mapping[str, Array], width: int, usual: int) -> int:
    """d, the dimension of random word vectors: the number of columns of the projections, or `width`."""
    columns = {name: int(W.shape[1]) for name, W in given.items() if name in PROJECTIONS}
    if not columns:
        return width
    name, d = next(iter(columns.items()))
    if width not in (usual, d):
        raise ConfigError(f"width is {width}, but {name} has {d} columns. Remove width, or make them equal.")
    return d


def random_shapes(given: Mapping[str, Array], d: int) -> dict[str, tuple[int, int]]:
    """The shapes of random projections that fit the given ones."""
    n = next((len(given[name]) for name in ("W_q", "W_k") if name in given), d)
    m = next((len(given[name]) for name in ("W_v", "P") if name in given), d)
    return {"W_q": (n, d), "W_k": (n, d), "W_v": (m, d), "W_o": (d, m)}


def projected(x_Td: Array, given: Mapping[str, Array], drawn: Mapping[str, Array]) -> Projected:
    """q, k and v from the word vectors. A projection that is not given comes from `drawn`; without one, the vectors stay as
    they are."""
    d = x_Td.shape[1]
    replaced = {other for name in given for other in _INSTEAD.get(name, ())}
    used = {name: W for name, W in {**drawn, **given}.items() if name in PROJECTIONS and name not in replaced}
    for name, W in used.items():
        if W.shape[1] != d or (name == "Q" and W.shape[0] != d):
            expected = f"{d} × {d}" if name == "Q" else f"{d} columns"
            raise ConfigError(f"{name} is {_size(W)}; expected {expected}, because the word vectors have dimension {d}")
    made = {PROJECTIONS[name]: x_Td @ W.T for name, W in used.items()}
    q, k, v = (made.get(name, x_Td) for name in ("q", "k", "v"))
    if q.shape[1] != k.shape[1]:
        of_q = next((name for name in ("W_q", "Q") if name in used), "x")
        of_k = "W_k" if "W_k" in used else "x"
        raise ConfigError(
            f"queries have dimension {q.shape[1]} ({of_q}) and keys {k.shape[1]} ({of_k}); expected W_q and W_k with equally "
            "many rows"
        )
    return Projected(q, k, v, used)


def output(o_HTE: Array, W_o: Array) -> Array:
    """y = W_o [o_1 … o_H], one row per word."""
    H, T, E = o_HTE.shape
    if W_o.shape[1] != H * E:
        heads = f"{H} heads of dimension {E}" if H > 1 else f"dimension {E}"
        raise ConfigError(f"W_o is {_size(W_o)}; expected {H * E} columns, because the sums have {heads}")
    y_Tm: Array = o_HTE.transpose(1, 0, 2).reshape(T, H * E) @ W_o.T
    return y_Tm


def word_vectors(given: Mapping[str, Array], words: int) -> Array:
    X_Td = given["X"]
    if len(X_Td) != words:
        raise ConfigError(f"X is {_size(X_Td)}; expected {words} rows, one for each word")
    return X_Td


def _name(given: str) -> str:
    plain = {re.sub("[_^]", "", name).lower(): name for name in NAMES}
    matched = plain.get(re.sub(r"[_^\s]", "", given).lower())
    if matched is None:
        raise ConfigError(f'unknown matrix "{_short(given)}".{did_you_mean(given, NAMES)}')
    return matched


def _matrix(name: str, value: Any) -> Array:
    expected = "expected rows of equally many numbers"
    try:
        matrix = np.asarray(value, np.float64)
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{name} is not a matrix; {expected}") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(f"{name} has the shape {' × '.join(map(str, matrix.shape)) or 'of one number'}; {expected}")
    if max(matrix.shape) > LARGEST:
        raise DataError(f"{name} is {_size(matrix)}; expected at most {LARGEST:,} rows and columns")
    if not np.isfinite(matrix).all():
        raise DataError(f"{name} has nan or infinity among its numbers; expected finite numbers")
    return matrix


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not valid JSON ({str(error)[:80]})") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _size(W: Array) -> str:
    return f"{W.shape[0]} × {W.shape[1]}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
