"""Beyond the trained length: train one model per position scheme on short windows, and measure each on longer ones.

Every length predicts the same tokens, so that only the amount of context differs. The tables of Shaw and T5 end at half of the
trained context: the row for all greater distances is then trained, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firth.api import Recipe, Watcher, find_recipe, train_recipe
from firth.config import split_assignment
from firth.errors import ConfigError, DataError, did_you_mean
from firth.evaluation.perplexity import loss_by_position
from firth.figures.extrapolation import by_length, by_position, extrapolation_text
from firth.figures.figure import Figure
from firth.layers.position import SCHEMES
from firth.layers.position.rotary_scaling import RotaryScaling
from firth.models import TransformerConfig, TransformerLM
from firth.models.stretch import stretched
from firth.progress import Progress
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.running_text import text_of
from firth.text.tokenizers.special_tokens import Ids

RECIPE = "docs-char-transformer"
STEPS = 200  # if the settings do not say how many
TOKENS = 16_384  # predicted at each length
LENGTHS = (1, 2, 4, 8)  # times the trained context
SCALED: dict[str, RotaryScaling] = {"rotary+ntk": "ntk", "rotary+yarn": "yarn"}  # the rotary model, stretched after training
POSITIONS = ("none", "learned", "sinusoidal", "rotary", *SCALED, "shaw", "t5", "alibi")

Watching = Callable[[str], AbstractContextManager[Watcher]]


@dataclass(frozen=True)
class LengthLosses:
    """One position scheme, in nats per token."""

    position: str
    loss: tuple[float | None, ...]  # mean at each length; None where its positions end before
    by_position: tuple[float, ...]  # at each position of the longest windows that it can read


@dataclass(frozen=True)
class Extrapolation:
    """`.text()` is the table; `.figures()` draws the loss against the length of the windows, and at each position."""

    recipe: str
    steps: int
    context: int  # tokens per window in training
    lengths: tuple[int, ...]  # tokens per window in evaluation
    tokens: int  # predicted at each length, the same ones
    schemes: tuple[LengthLosses, ...]

    def text(self) -> str:
        return extrapolation_text(self.lengths, {one.position: one.loss for one in self.schemes})

    def figures(self) -> tuple[Figure, Figure]:
        return (
            by_length(self.lengths, {one.position: one.loss for one in self.schemes}, self.context),
            by_position({one.position: one.by_position for one in self.schemes}, self.context),
        )


@contextlib.contextmanager
def unwatched(label: str) -> Iterator[Watcher]:
    yield Watcher()


def extrapolate(
    recipe: str | Path = RECIPE,
    assignments: Sequence[str] = (),
    *,
    positions: Sequence[str] = POSITIONS,
    lengths: Sequence[int] = LENGTHS,
    tokens: int = TOKENS,
    out: str | Path | None = None,
    watching: Watching = unwatched,
) -> Extrapolation:
    """Train a Transformer language model with each of `positions`, and evaluate it at `lengths` times its training.context.

    `assignments` change the recipe, as on the command line: ["training.steps=2000"]. `tokens` of the validation data are
    predicted at each length. The runs are kept in `out`, if it is given, and not trained again."""
    _check(positions, lengths, tokens)
    base = _base(recipe, assignments)
    context = base.training.context
    with _folder(out) as folder:
        trained = {kind: _train(base, kind, folder / kind, watching) for kind in _kinds(positions)}
        any_run = next(iter(trained.values()))
        windows = tuple(context * length for length in sorted(set(lengths)))
        with watching("evaluating") as watcher:
            ids = _held_out(any_run, max(windows), tokens, watcher.work)
            schemes = tuple(_measure(name, trained, windows, ids, watcher.work) for name in dict.fromkeys(positions))
    return Extrapolation(str(recipe), base.training.steps, context, windows, len(ids) - 1, schemes)


def _check(positions: Sequence[str], lengths: Sequence[int], tokens: int) -> None:
    for name in positions:
        if name not in POSITIONS:
            raise ConfigError(f'there is no position scheme "{name}".{did_you_mean(name, POSITIONS)}')
    if not positions or not lengths or min(lengths) < 1 or tokens < 1:
        raise ConfigError(
            f"positions, lengths and tokens are {list(positions)}, {list(lengths)} and {tokens}; expected at least one position, "
            "and lengths and tokens of 1 or more"
        )


def _base(name: str | Path, assignments: Sequence[str]) -> Recipe:
    recipe = find_recipe(str(name), assignments)
    if not isinstance(recipe.model, TransformerConfig) or recipe.objective.kind != "next-token":
        raise ConfigError(f'{name} is not a Transformer language model. Choose another recipe, such as "{RECIPE}".')
    given, training = {split_assignment(assignment)[0] for assignment in assignments}, recipe.training
    steps = training.steps if "training.steps" in given else min(STEPS, training.steps)
    budget = {"steps": steps, "warmup": min(training.warmup, steps // 10), "evaluate_every": 0}
    own: dict[str, Any] = {name: value for name, value in budget.items() if f"training.{name}" not in given}
    return dataclasses.replace(recipe, training=dataclasses.replace(training, **own), expected=None)


def _kinds(positions: Sequence[str]) -> list[str]:
    """The schemes to train: "rotary+yarn" is a rotary model, too."""
    return list(dict.fromkeys(name.partition("+")[0] for name in positions))


def with_position(recipe: Recipe, kind: str) -> Recipe:
    """The same recipe with another position scheme, whose tables end at half of the context."""
    n = recipe.training.context
    buckets = min(32, max(2, n // 4))
    own: Mapping[str, Any] = {
        "shaw": {"max_distance": max(1, n // 2)},
        "t5": {"buckets": buckets, "max_distance": max(buckets // 2 + 1, n // 2)},
    }.get(kind, {})
    model: Any = recipe.model
    model = dataclasses.replace(model, position=SCHEMES[kind].Config(**own), context=n)
    return dataclasses.replace(recipe, model=model, expected=None)


def _train(recipe: Recipe, kind: str, folder: Path, watching: Watching) -> LanguageModelRun:
    with watching(kind) as watcher:
        return train_recipe(with_position(recipe, kind), folder, resume=True, watcher=watcher).expect(LanguageModelRun)


@contextlib.contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="firth-") as folder:
        yield Path(folder)


def _held_out(run: LanguageModelRun, longest: int, tokens: int, progress: Progress) -> Ids:
    """The first tokens of the validation data that fill whole windows of every length."""
    _, text = text_of(run, None, "valid", progress)
    predicted = min(text.count - 1, max(tokens, longest)) // longest * longest
    if predicted == 0:
        raise DataError(
            f"the held-out text has {text.count:,} tokens, but windows of {longest:,} need at least {longest + 1:,}. "
            "Give more text, or smaller lengths."
        )
    return text.ids[: predicted + 1]


def _measure(
    name: str, trained: Mapping[str, LanguageModelRun], windows: Sequence[int], ids: Ids, progress: Progress
) -> LengthLosses:
    run = trained[name.partition("+")[0]]
    losses: list[float | None] = []
    curve = np.zeros(0)
    for window in windows:
        network = _network(run, name, window)
        if network.scheme.end is not None and window > network.scheme.end:
            losses.append(None)
            continue
        at_once = max(1, run.recipe.training.batch * run.recipe.training.context // window)
        curve = loss_by_position(network, ids, batch=at_once, context=window, progress=progress)
        losses.append(float(curve.mean()))
    return LengthLosses(name, tuple(losses), tuple(curve.tolist()))


def _network(run: LanguageModelRun, name: str, window: int) -> TransformerLM:
    network, context = run.network, run.recipe.training.context
    assert isinstance(network, TransformerLM)  # see _base
    if name in SCALED and window > context:
        return stretched(network, window, SCALED[name], context)
    return network
