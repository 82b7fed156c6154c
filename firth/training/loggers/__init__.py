"""Where the numbers of log.jsonl also go: one file for each experiment tracker, and `LOGGERS`, the only list of them. The package
of a tracker is imported when a training begins that names it in `training.log_to`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Annotated

from firth.errors import ConfigError
from firth.ideas import Ideas
from firth.training.loggers.logger import LoggedRun, Logger
from firth.training.loggers.mlflow import MLflow
from firth.training.loggers.tensorboard import TensorBoard
from firth.training.loggers.wandb import WeightsAndBiases

__all__ = ["LOGGERS", "LoggedRun", "Logger", "LoggerKind", "expect_installed"]

LOGGERS: Ideas[type[Logger]] = Ideas("logger", Logger, (TensorBoard, WeightsAndBiases, MLflow))
LoggerKind = Annotated[str, LOGGERS]


def expect_installed(kinds: Sequence[str]) -> None:
    """Raise ConfigError if the package of a logger is not installed."""
    for kind in kinds:
        package = LOGGERS[kind].package
        if package and not _is_installed(package):
            raise ConfigError(
                f'training.log_to names "{kind}", but {package} is not installed; run `pip install {package}`, or remove the name'
            )


def _is_installed(package: str) -> bool:
    """A folder of that name, such as the one that W&B makes in the current folder, is no package."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None
