"""TensorBoard's event files."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from firth import files
from firth.training.loggers.logger import LoggedRun, Logger, numbers


class TensorBoard(Logger):
    kind = "tensorboard"
    label = "TensorBoard"
    about = "Event files in the folder `tensorboard` of the run, for `tensorboard --logdir RUN`."
    package = "tensorboard"

    def __init__(self, run: LoggedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run.folder.tensorboard
        with files.writing(self._folder):  # purge: drop events an interrupted run wrote after the resumed step
            self._writer = SummaryWriter(str(self._folder), purge_step=run.step + 1 if run.step else None)
            self._writer.add_text("recipe", _as_code(run.folder.recipe.read_text(encoding="utf-8")), run.step)

    def write(self, line: Mapping[str, Any]) -> None:
        with files.writing(self._folder):
            for name, value in numbers(line):
                self._writer.add_scalar(name, value, line["step"])

    def flush(self) -> None:
        with files.writing(self._folder):
            self._writer.flush()

    def close(self, outcome: str) -> None:
        with contextlib.suppress(OSError):
            self._writer.add_text("outcome", outcome)
            self._writer.close()


def _as_code(text: str) -> str:
    """TensorBoard shows texts as Markdown."""
    return "".join(f"    {line}\n" for line in text.splitlines())
