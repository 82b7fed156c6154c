"""Arms of attention dynamics (S29): points that attention moves. Nothing is trained; the seed draws points and matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from firth.errors import ConfigError, did_you_mean
from firth.experiments.studies.learner import Measured
from firth.experiments.studies.study import Measure
from firth.experiments.studies.table_learner import TableLearner
from firth.inspection.dynamics import Curves, PresetName, evolve, preset
from firth.training import history

_CURVES: Mapping[str, Callable[[Curves], Any]] = {
    "rank": lambda curves: curves.effective_rank,
    "attention_rank": lambda curves: curves.attention_rank,
    "distance": lambda curves: curves.mean_distance,
    "clusters": lambda curves: curves.clusters,
}
_FIRST = "first_"
METRICS = (*_CURVES, *(f"{_FIRST}{name}" for name in _CURVES))


@dataclass(frozen=True, kw_only=True)
class DynamicsConfig:
    """The table `dynamics` of an arm: settings of `firth dynamics`."""

    preset: PresetName = "lecture"
    n: int | None = None  # tokens; if not set, those of the preset
    d: int | None = None  # dimension; if not set, that of the preset
    p: float | None = None  # factor of P; if not set, that of the preset
    q: float = 1.0  # factor of Q
    rescale: float = 1.0  # factor of each layer
    depth: int = 200  # layers
    seed: int = 0


class DynamicsLearner(TableLearner):
    """Points after many layers of attention."""

    base = "dynamics"
    tables: ClassVar[tuple[str, ...]] = ("dynamics",)
    file = "dynamics.toml"
    Config = DynamicsConfig

    def expect_measurable(self, measures: Mapping[str, Measure], arm: str) -> None:
        for name, measure in measures.items():
            if self.setting_of(measure.metric) is None and measure.metric not in METRICS:
                near = did_you_mean(measure.metric, METRICS)
                raise ConfigError(
                    f'measure.{name}.metric is "{measure.metric}", which the dynamics of arm "{arm}" do not have.{near} '
                    "Set measure.arms to measure other arms only."
                )

    def run(self, folder: Path, measures: Mapping[str, Measure]) -> Measured:
        config: DynamicsConfig = self.config
        with history.recorded(self.write_settings(folder), _Computation(config.depth), {}):
            system = preset(config.preset, n=config.n, d=config.d, p=config.p, q=config.q, seed=config.seed)
            curves = evolve(system.rescaled(config.rescale), config.depth).curves
        values = {name: self.setting_of(measure.metric) for name, measure in measures.items()}
        found = {name: _of(curves, one.metric) for name, one in measures.items() if one.metric in METRICS}
        return Measured(values | found)


@dataclass(frozen=True)
class _Computation:
    """What a history says about it: the number of layers."""

    step: int
    device: torch.device = torch.device("cpu")


def _of(curves: Curves, metric: str) -> float:
    """A number of the last layer, or of the points before the first one."""
    each = _CURVES[metric.removeprefix(_FIRST)](curves)
    return float(each[0 if metric.startswith(_FIRST) else -1])
