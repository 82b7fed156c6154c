"""The runs that are served: each with an engine if it writes text, and with a worker for everything else."""

from __future__ import annotations

import copy
import functools
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.decoding.engine.client import EngineClient, EngineConnection, EngineDoor
from firth.decoding.engine.engine import Engine
from firth.decoding.engine.process import EngineProcess
from firth.errors import ConfigError, FirthError, RunError, did_you_mean
from firth.files import exists
from firth.serving.http.errors import ApiError
from firth.serving.http.limits import Limits
from firth.serving.http.worker import Worker
from firth.serving.run_names import runs_in
from firth.tasks.abilities.continuation import end_tokens
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run

if TYPE_CHECKING:
    from firth.layers.quantised import Quantisation
    from firth.models.precision import Precision
    from firth.training.config import Device

_NAME = re.compile(r"[\w.+@:-]+")
SLOTS = 16
CONTEXT = 4096  # tokens per slot, unless asked for: some public models declare a context of 131,072


class ServedModel:
    """`apart`: with the engine in a process of its own. `door`: with that of another process."""

    def __init__(
        self,
        name: str,
        run: Run[Any],
        limits: Limits,
        *,
        slots: int = SLOTS,
        capacity: int | None = None,
        apart: bool = False,
        door: EngineDoor | None = None,
    ) -> None:
        self.name, self.run, self.limits = name, run, limits
        self.created = int(time.time())
        self.worker = Worker(name, limits.queue)
        self.engine: Engine | EngineClient | None = None
        self.for_worker = run
        if door is not None:
            self.engine = EngineConnection(door)
        elif isinstance(run, LanguageModelRun):
            if capacity is None and run.network.context is not None:
                capacity = CONTEXT
            kind = EngineProcess if apart else Engine
            self.engine = kind(run.network, slots=slots, capacity=capacity, queue=limits.queue, tokenizer=run.tokenizer)
            self.for_worker = run if apart else _with_own_modules(run)

    @property
    def context(self) -> int | None:
        """The tokens that the model reads at once; None: any number."""
        context: int | None = self.run.network.context
        return context

    @property
    def language(self) -> LanguageModelRun:
        return self.run.expect(LanguageModelRun)

    @functools.cached_property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return end_tokens(self.language)

    @functools.cached_property
    def chats(self) -> bool:
        """True if it was trained on conversations, or has a chat template."""
        try:
            return isinstance(self.run, LanguageModelRun) and self.run.format is not None
        except FirthError:
            return False

    @property
    def ready(self) -> bool:
        return self.engine is None or self.engine.ready

    def writer(self) -> Engine | EngineClient:
        self.language  # noqa: B018 (raises for other runs, and says what they can do)
        assert self.engine is not None
        return self.engine

    def start(self) -> None:
        if self.engine is not None:
            self.engine.start()
        self.worker.start()

    def close(self, *, drain: bool = True) -> None:
        if self.engine is not None:
            self.engine.close(drain=drain)
        self.worker.close()

    def facts(self) -> dict[str, int | float]:
        own: dict[str, int | float] = {"worker_running": self.worker.running, "worker_waiting": self.worker.waiting}
        return {**(self.engine.facts() if self.engine is not None else {}), **own}


class Models:
    """The models by name. A request names one of them; nothing that it says is a path."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._started = False

    def __iter__(self) -> Any:
        return iter(self._models.values())

    def get(self, name: str | None) -> ServedModel:
        """By name; a server with one model needs none."""
        if name is None and len(self._models) == 1:
            return next(iter(self._models.values()))
        if name is None:
            raise ApiError(400, f"no model was named. Choose {self._listed()}.", param="model")
        if name not in self._models:
            near = did_you_mean(name, self._models, listed=False)
            message = f'there is no model "{name[:60]}".{near} Served: {self._listed()}.'
            raise ApiError(404, message, param="model", code="model_not_found")
        return self._models[name]

    def _listed(self) -> str:
        return ", ".join(self._models)

    def start(self) -> None:
        """Nothing if they are started. If one cannot start, the others are ended."""
        if self._started:
            return
        self._started = True
        try:
            for model in self._models.values():
                model.start()
        except BaseException:
            self.close(drain=False)
            raise

    def close(self, *, drain: bool = True) -> None:
        for model in self._models.values():
            model.close(drain=drain)

    def facts(self) -> Mapping[str, Mapping[str, int | float]]:
        return {name: model.facts() for name, model in self._models.items()}


def load_models(
    places: Sequence[Path],
    limits: Limits,
    *,
    device: Device = "auto",
    dtype: Precision | None = None,
    quantise: Quantisation | None = None,
    slots: int = SLOTS,
    capacity: int | None = None,
    apart: bool = False,
) -> Models:
    """The runs in `places`: runs, folders that contain runs, or public models. `apart`: see ServedModel; a script that asks for
    it must start its work under `if __name__ == "__main__":`, because the new processes import it."""
    from firth.api import load

    named = name_runs(places)
    return Models(
        [
            ServedModel(
                name, load(path, device, dtype=dtype, quantise=quantise), limits, slots=slots, capacity=capacity, apart=apart
            )
            for name, path in named.items()
        ]
    )


def name_runs(places: Sequence[Path]) -> dict[str, Path]:
    """The name of a model is that of its folder, or of its file without the suffix."""
    from firth.api.loading import is_foreign

    named: dict[str, Path] = {}
    for place in places:
        if not exists(place):
            raise RunError(f"{place} does not exist; give a run made with `firth train RECIPE --out {place}`")
        paths = [place] if is_foreign(place) or place.is_file() else runs_in(place)
        if not paths:
            raise RunError(f"{place} contains no run; give a folder made with `firth train RECIPE --out RUN`")
        for path in paths:
            name = path.resolve().stem if path.is_file() else path.resolve().name
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f'the run "{name}" cannot be served: its name has a space or a special character. Rename the folder.'
                )
            if named.setdefault(name, path).resolve() != path.resolve():
                raise ConfigError(f'{named[name]} and {path} would both be the model "{name}". Rename one of them.')
    return named


def _with_own_modules(run: LanguageModelRun) -> LanguageModelRun:
    """The same run with the same weights in other modules. To look at attention, hooks are put on modules for a moment; on the
    engine's they would be called by its thread."""
    weights = {id(tensor): tensor for tensor in (*run.network.parameters(), *run.network.buffers())}
    other = copy.copy(run)
    other.network = copy.deepcopy(run.network, weights)
    return other
