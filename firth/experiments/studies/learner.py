"""What an arm of a study trains. Everything else about a study is the same for networks and for word vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from firth.experiments.studies.study import Arm, Measure


@dataclass(frozen=True)
class Measured:
    """What a finished run gave."""

    values: Mapping[str, float | None]  # of each measure, by its name; None: not defined for this run
    lengths: Sequence[Mapping[str, Any]] = ()  # scores by source length, of translators


class Learner(Protocol):
    """The settings of an arm, and how to train and measure a run with them."""

    base: ClassVar[str]  # the key of an arm with such a learner
    tables: ClassVar[tuple[str, ...]]  # the tables of its settings

    @classmethod
    def of(cls, arm: Arm, chosen: Mapping[str, Any], beside: Path) -> Self:
        """That of the arm with these settings, which have dots in their names. `beside`: the folder of the study."""

    @property
    def steps(self) -> int:
        """Of the whole training, as the log counts them; 0 if only the data tell."""

    def seeded(self, seed: int, after: Path | None) -> Self:
        """The same with `seed` added to its own, starting from the weights of the run `after`."""

    def expect_measurable(self, measures: Mapping[str, Measure], arm: str) -> None:
        """Refuse measures that its runs do not have, before anything is trained."""

    def setting_of(self, metric: str) -> float | None:
        """The value of the setting that a metric names, such as "training.rate"; None if it names none."""

    def differences(self, folder: Path) -> list[str]:
        """The settings of the run in `folder` that are others: "training.rate = 0.01 instead of 0.02"."""

    def run(self, folder: Path, measures: Mapping[str, Measure]) -> Measured:
        """Train the run in `folder`, or the rest of it, and measure it. Raises Diverged if the loss explodes."""
