"""MLflow: a server, or a database file of its own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from firth.errors import RunError
from firth.text import cache
from firth.training.command import command_line
from firth.training.loggers.logger import LoggedRun, Logger, numbers
from firth.version import __version__

_EXPERIMENT = "firth"
_LONGEST = 6000  # characters of a parameter
_AT_ONCE = {"params": 100, "metrics": 1000}  # MLflow's limits of a request
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "pruned": "KILLED"}  # any other: FAILED


class MLflow(Logger):
    kind = "mlflow"
    label = "MLflow"
    about = "A run of MLflow, on the server of `MLFLOW_TRACKING_URI` or, if that is not set, in the file `mlflow.db`."
    package = "mlflow"

    def __init__(self, run: LoggedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read on import
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the packages that it imports
            from mlflow import MlflowClient

            logging.getLogger("mlflow").setLevel(logging.WARNING)  # otherwise it tells about each table of a new database
            with _translated("MLflow could not begin a run"), _alone():
                self._client = MlflowClient()
                known = run.known(self.kind)
                self._id = self._resumed(run, known) if known else self._begun(run)
                self._client.log_text(self._id, run.folder.recipe.read_text(encoding="utf-8"), "recipe.toml")
        self._logged = run.logged if known else 0
        self._pending: list[Any] = []
        self._unreachable = False

    def _begun(self, run: LoggedRun) -> str:
        tags = {"mlflow.source.name": command_line(), "mlflow.source.type": "LOCAL", "firth": __version__}
        made = self._client.create_run(self._experiment(), run_name=os.environ.get("MLFLOW_RUN_NAME") or run.name, tags=tags)
        run_id: str = made.info.run_id
        run.remember(self.kind, id=run_id, uri=self._client.tracking_uri)
        self._send(run_id, _parameters(run.recipe))
        return run_id

    def _resumed(self, run: LoggedRun, known: Mapping[str, str]) -> str:
        """MLflow never changes a parameter: settings that differ become tags."""
        from mlflow.exceptions import MlflowException

        run_id = known.get("id", "")
        try:
            before = self._client.get_run(run_id).data.params
        except MlflowException as error:
            raise RunError(
                f"MLflow at {self._client.tracking_uri} has no run {run_id!r}, which was begun at {known.get('uri')}. Set "
                f"MLFLOW_TRACKING_URI to that place, or remove {run.folder.loggers} to begin a new one."
            ) from error
        self._client.update_run(run_id, status="RUNNING")
        now = _parameters(run.recipe)
        self._send(run_id, {name: value for name, value in now.items() if name not in before})
        for name, value in now.items():
            if before.get(name, value) != value:
                self._client.set_tag(run_id, name, value)
        return run_id

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return given
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
        if (found := self._client.get_experiment_by_name(name)) is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another process was faster, perhaps
                if (found := self._client.get_experiment_by_name(name)) is None:
                    raise
        return str(found.experiment_id)

    def _send(self, run_id: str, parameters: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        listed = [Param(name, value) for name, value in parameters.items()]
        for first in range(0, len(listed), _AT_ONCE["params"]):
            self._client.log_batch(run_id, params=listed[first : first + _AT_ONCE["params"]])

    def write(self, line: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        if line["step"] > self._logged:  # a resumed training repeats the steps after its checkpoint
            now = int(time.time() * 1000)
            self._pending += [Metric(name, float(value), now, line["step"]) for name, value in numbers(line)]
            if not self._unreachable:
                self.flush()

    def flush(self) -> None:
        """Send what is pending. A server that is down must not end a training: it is tried again before the next checkpoint."""
        from mlflow.exceptions import MlflowException

        while self._pending:
            try:
                self._client.log_batch(self._id, metrics=self._pending[: _AT_ONCE["metrics"]])
            except MlflowException as error:
                if not self._unreachable:
                    warnings.warn(f"MLflow cannot be reached and is tried again at each checkpoint: {error}", stacklevel=2)
                self._unreachable = True
                return
            del self._pending[: _AT_ONCE["metrics"]]
        self._unreachable = False

    def close(self, outcome: str) -> None:
        self.flush()
        if self._pending:
            warnings.warn(f"{len(self._pending)} numbers did not reach MLflow; they are in the log of the run", stacklevel=2)
        with _translated("MLflow did not hear how the training ended"):
            self._client.set_tag(self._id, "outcome", outcome)
            self._client.set_terminated(self._id, _STATUS.get(outcome, "FAILED"))


def _parameters(table: Mapping[str, Any], at: str = "") -> dict[str, str]:
    """Settings with dots in their names. The values of MLflow have a limit; recipe.toml, beside them, has none."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _parameters(value, f"{at}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{at}{key}"] = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return found


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        raise RunError(f"{what}: {error}. MLFLOW_TRACKING_URI names its server or database.") from error


def _alone() -> contextlib.AbstractContextManager[None]:
    """One process at a time: two that create the tables of the same database would fail."""
    place = f"{os.environ.get('MLFLOW_TRACKING_URI')} {os.getcwd()}"
    return cache.locked(cache.cache_folder() / f"mlflow-{hashlib.sha256(place.encode()).hexdigest()[:16]}.lock")
