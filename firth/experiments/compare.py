"""compare(): architectures side by side, by how far gradients reach, what a layer costs, and how fast they learn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from firth.api.recipe import Recipe
from firth.api.training import as_recipe, train_into, watching
from firth.errors import ConfigError, did_you_mean
from firth.experiments.compare_runs import RunsComparison, compare_runs
from firth.figures.figure import Figure
from firth.figures.training import AGAINST, Log, training_curves
from firth.inspection.cost import Costs
from firth.inspection.gradient_flow import Flows, compare_flow
from firth.inspection.timing import measured
from firth.progress import Progress
from firth.tasks.splits import Split
from firth.text.data.running_text import running_text
from firth.training import log
from firth.training.config import Device

KINDS = ("rnn", "lstm", "gru", "mingru", "transformer", "linear", "gla", "based")
_VALIDATIONS = 10  # per run, so that the held-out loss is a curve, too


@dataclass(frozen=True, repr=False)
class Learning:
    """The logs of models of equal size that learned the same text in the same number of steps: the recipes docs-char-rnn,
    -lstm and so on. `.figures()` draws their losses, `.text()` is the table."""

    logs: Mapping[str, Log]  # of each kind of model

    def figures(self) -> dict[str, Figure]:
        """The training and the validation loss of all models, against tokens, steps and seconds."""
        return {against: training_curves(self.logs, "loss", against) for against in AGAINST}

    def __repr__(self) -> str:
        return f"<Learning: {', '.join(self.logs)}; .figures() draws their losses, .text() is the table>"

    def _repr_html_(self) -> str:
        return self.figures()["tokens"]._repr_html_()

    def text(self) -> str:
        """The last held-out loss of each model, and what it needs to reach the worst of these losses."""
        goal = max(lines[-1]["valid"]["loss"] for lines in self.logs.values())
        rows = [f"{'model':<13}{'held-out':>9}{'steps':>8}{'tokens':>11}{'seconds':>9}{'tokens/s':>10}"]
        for kind, lines in self.logs.items():
            last = lines[-1]
            rows.append(f"{kind:<13}{last['valid']['loss']:>9.3f}{self._reached(kind, goal)}{last['tokens_per_second']:>10,.0f}")
        notes = [f"held-out: nats per character at the end; steps, tokens and seconds: until it is {goal:.3f}"]
        if any(self._at_once(kind, goal) for kind in self.logs):
            notes.append("≤: reached at or before the first measurement")
        if idle := [kind for kind in self.logs if not self._learned(kind)]:
            notes.append(f"–: the loss of {', '.join(idle)} never fell below the first measurement. Raise --steps.")
        return "\n".join([*rows, *notes])

    def _reached(self, kind: str, goal: float) -> str:
        if not self._learned(kind):
            return f"{'–':>8}{'–':>11}{'–':>9}"
        first, before = self.reached(kind, goal), "≤" if self._at_once(kind, goal) else ""
        tokens, seconds = f"{before}{first['tokens']:,}", f"{before}{first['seconds']:.1f}"
        return f"{before + format(first['step'], ','):>8}{tokens:>11}{seconds:>9}"

    def _validations(self, kind: str) -> list[Mapping[str, Any]]:
        return [line for line in self.logs[kind] if "valid" in line]

    def _at_once(self, kind: str, goal: float) -> bool:
        """True if the first measurement is below `goal`: the goal may have been reached earlier."""
        return self._learned(kind) and bool(self._validations(kind)[0]["valid"]["loss"] <= goal)

    def _learned(self, kind: str) -> bool:
        """True if the held-out loss fell after the first measurement."""
        losses = [line["valid"]["loss"] for line in self._validations(kind)]
        return bool(losses[-1] < losses[0])

    def reached(self, kind: str, goal: float) -> Mapping[str, Any]:
        """The first validation at which the held-out loss is at most `goal`."""
        return next(line for line in self.logs[kind] if "valid" in line and line["valid"]["loss"] <= goal)


def shortened(recipe: Recipe, steps: int, evaluate_every: int = 0) -> Recipe:
    """The recipe for a short training, whose log has a hundred lines."""
    warmup, log_every = min(recipe.training.warmup, steps // 10), max(1, steps // 100)
    training = dataclasses.replace(
        recipe.training, steps=steps, warmup=warmup, log_every=log_every, evaluate_every=evaluate_every
    )
    return dataclasses.replace(recipe, training=training, expected=None)


def learning(
    out: str | Path, steps: int = 300, kinds: Sequence[str] = KINDS, data: str | Path = "docs", progress: Progress | bool = True
) -> Learning:
    """Train models of equal size for `steps` steps, each into out/KIND. `data` is a text file or a named data set."""
    if steps < _VALIDATIONS:
        raise ConfigError(f"steps is {steps}; expected at least {_VALIDATIONS}")
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f'there is no model "{kind}" to compare; choose from {", ".join(KINDS)}')
    logs, source = {}, running_text(str(data))
    table = {"path": source.path} if source.name is None else {"name": source.name}
    for kind in kinds:
        recipe = as_recipe(f"docs-char-{kind}", {"data": table})
        recipe = shortened(recipe, steps, steps // _VALIDATIONS)
        with watching(progress, kind) as watcher:
            folder = train_into(recipe, Path(out) / kind, watcher=watcher)
        logs[kind] = log.read(folder.log)
    return Learning(logs)


COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "flow": compare_flow,
    "cost": measured,
    "learning": learning,
    "runs": compare_runs,
}


@overload
def compare(
    what: Literal["flow"], *, length: int = 100, size: int = 40_000, gain: float = 1.0, clip: float | None = None, seed: int = 0
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


@overload
def compare(
    what: Literal["runs"],
    *,
    runs: Sequence[str | Path],
    data: str | Path | None = None,
    split: Split | None = None,
    apart: bool = False,
    samples: int = 10_000,
    seed: int = 0,
    device: Device = "auto",
    progress: Progress | bool = True,
) -> RunsComparison: ...


def compare(what: str, **settings: Any) -> Any:
    """Compare trained models, "runs", or architectures by `what`: "flow", "cost" or "learning". Each result has `.text()` and
    a figure.

    runs: two or more trained `runs` on the same texts, the file `data` or a `split` of their own data, by default test. Those
    that differ only in their seed are one model, unless `apart`. Every model is tested against the first, with `samples` draws of
    texts from `seed`: an interval by a paired bootstrap, and p by approximate randomisation.

    flow: how far gradients reach in untrained models of about `size` parameters, up to `length` tokens back. `gain` multiplies
    the recurrent matrices. `clip` limits the norm of the gradient. `seed` draws weights and texts.

    cost: the time of one layer on `device` against text length and width. Sizes grow until a call takes `seconds`, or the size
    is `longest` tokens or `widest` dimensions. The best of `rounds` counts.

    learning: the loss of models of equal size, of the `kinds`, that learn `data`, a text file or a named data set, for `steps`
    steps. Each is trained into a folder of its own in `out`."""
    if what not in COMPARISONS:
        raise ConfigError(f'there is no comparison "{what}".{did_you_mean(what, COMPARISONS)}')
    return COMPARISONS[what](**settings)
