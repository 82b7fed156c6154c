"""Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from firth.errors import RunError
from firth.training.loggers.logger import LoggedRun, Logger, numbers

_PROJECT = "firth"
_EXIT_CODES = {"finished": 0, "interrupted": 255, "pruned": 255}  # 255 is "killed" in W&B, any other but 0 "failed"


class WeightsAndBiases(Logger):
    kind = "wandb"
    label = "Weights & Biases"
    about = "A run of W&B, in the folder `wandb` of the run. Nothing is sent unless `WANDB_MODE=online` is set."
    package = "wandb"

    def __init__(self, run: LoggedRun) -> None:
        mode: Any = os.environ.get("WANDB_MODE") or "offline"
        if mode == "offline":
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read on import
        import wandb

        known = run.known(self.kind).get("id")
        self._logged = run.logged if known else 0
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT") or _PROJECT,
                dir=os.environ.get("WANDB_DIR") or str(run.folder.path),
                id=known,
                name=None if known else os.environ.get("WANDB_NAME") or run.name,  # it may have got another name meanwhile
                resume="allow" if known else None,
                config=run.recipe,
                mode=mode,
                reinit="create_new",  # others of this process go on
                settings=wandb.Settings(console="off", silent=mode == "offline"),
            )
        except wandb.Error as error:
            raise RunError(f"W&B could not begin a run: {error}. With WANDB_MODE=offline it needs no connection.") from error
        if known is None:
            run.remember(self.kind, id=self._run.id)

    def write(self, line: Mapping[str, Any]) -> None:
        if line["step"] > self._logged:  # a resumed training repeats the steps after its checkpoint
            self._run.log(dict(numbers(line)), step=line["step"], commit=True)

    def close(self, outcome: str) -> None:
        self._run.summary["outcome"] = outcome
        self._run.finish(exit_code=_EXIT_CODES.get(outcome, 1))
