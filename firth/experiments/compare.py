"""compare(): architectures side by side, by how far gradients reach, what a layer costs, and how fast they learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from firth.errors import ConfigError, did_you_mean
from firth.experiments.learning import KINDS, Learning, learning
from firth.inspection.cost import Costs
from firth.inspection.gradient_flow import Flows, compare_flow
from firth.inspection.timing import measured
from firth.progress import Progress

COMPARISONS: Mapping[str, Callable[..., Any]] = {"flow": compare_flow, "cost": measured, "learning": learning}


@overload
def compare(
    what: Literal["flow"],
    *,
    length: int = 100,
    size: int = 40_000,
    gain: float = 1.0,
    clip: float | None = None,
    seed: int = 0,
) -> Flows: ...


@overload
def compare(
    what: Literal["cost"],
    *,
    longest: int | None = None,
    widest: int | None = None,
    seconds: float = 0.5,
    rounds: int = 3,
    device: str = "cpu",
    progress: Progress | bool = True,
) -> Costs: ...


@overload
def compare(
    what: Literal["learning"],
    *,
    out: str | Path,
    steps: int = 300,
    kinds: Sequence[str] = KINDS,
    data: str | Path = "docs",
    progress: Progress | bool = True,
) -> Learning: ...


def compare(what: str, **settings: Any) -> Any:
    """Compare architectures by `what`: "flow", "cost" or "learning". Each result has `.text()` and a figure.

    flow: how far gradients reach in untrained models of about `size` parameters, up to `length` tokens back. `gain` multiplies
    the recurrent matrices. `clip` limits the norm of the gradient. `seed` draws weights and texts.

    cost: the time of one layer on `device` against text length and width. Sizes grow until a call takes `seconds`, or the size
    is `longest` tokens or `widest` dimensions. The best of `rounds` counts.

    learning: the loss of models of equal size, of the `kinds`, that learn `data`, a text file or a named data set, for `steps`
    steps. Each is trained into a folder of its own in `out`."""
    if what not in COMPARISONS:
        raise ConfigError(f'there is no comparison "{what}".{did_you_mean(what, COMPARISONS)}')
    return COMPARISONS[what](**settings)
