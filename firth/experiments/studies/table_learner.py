"""Arms that have a table of settings in place of a recipe. The folder of a run holds the settings in a file."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import tomli_w

from firth import files
from firth.config import build, nested, read_toml, settings, to_table
from firth.errors import ConfigError, did_you_mean, option
from firth.experiments.studies.facts import setting_in
from firth.experiments.studies.study import Arm
from firth.files import is_file
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class TableLearner(ABC):
    """Settings, and the folder of the study."""

    config: Any  # of the class Config
    beside: Path
    base: ClassVar[str]  # the table of an arm that has its settings
    tables: ClassVar[tuple[str, ...]]  # those of all settings that apply
    file: ClassVar[str]  # which holds the settings of a run
    Config: ClassVar[type[Any]]

    @property
    def steps(self) -> int:
        """Only the log knows."""
        return 0

    @classmethod
    def of(cls, arm: Arm, chosen: Mapping[str, Any], beside: Path) -> Self:
        for name in chosen:
            if name.partition(".")[0] not in cls.tables:
                known = [f"{cls.base}.{field.name}" for field in dataclasses.fields(cls.Config)]
                raise ConfigError(f"{name} is no setting of the arms with [{cls.base}].{did_you_mean(name, known)}")
        return cls(build(cls.Config, nested(chosen).get(cls.base, {}), cls.base), beside)

    def seeded(self, seed: int, after: Path | None) -> Self:
        assert after is None  # Study has refused it
        return dataclasses.replace(self, config=dataclasses.replace(self.config, seed=self.config.seed + seed))

    def setting_of(self, metric: str) -> float | None:
        return setting_in({self.base: self.config}, metric)

    def differences(self, folder: Path) -> list[str]:
        if not is_file(folder / self.file):
            return ["another kind of run"]
        table = read_toml(folder / self.file)
        if self.base not in table:
            return [f"{', '.join(table)} instead of {self.base}"]
        was, now = (_values(one) for one in (build(self.Config, table[self.base], self.base), self.config))
        return [f"{self.base}.{name} = {was[name]!r} instead of {now[name]!r}" for name in now if was[name] != now[name]]

    def write_settings(self, folder: Path) -> RunFolder:
        """Begin a run there, unless the folder belongs to a network."""
        place = RunFolder(folder)
        if place.exists():
            raise ConfigError(f"{folder} holds a run of a network. Choose another {option('folder', '--out')}.")
        files.write_text(folder / self.file, tomli_w.dumps({self.base: to_table(self.config)}))
        return place


def _values(config: Any) -> dict[str, Any]:
    return {name: value for name, value, _ in settings(config)}
