"""The interface of a tour station: a function that gets a guide, trains its models and returns a section of the report."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path

from firth.api import Recipe, Watcher
from firth.api.training import train_into
from firth.experiments.compare import shortened
from firth.figures.page import Section
from firth.text.threads import cores
from firth.training.folder import RunFolder

_FEWEST = 20  # steps, however little effort

_Report = tuple[str, int, int] | None  # what, done, total; None ends the reports
_reports: SimpleQueue[_Report]  # of a worker, as is the event
_ended: Event


def train_side_by_side(runs: Mapping[str, tuple[Recipe, Path]], watcher: Watcher) -> None:
    """Train each recipe into its folder, in one process for each core: a second thread hardly speeds up products as small as
    theirs, a second process doubles what a machine trains. The watcher's `work` hears of the steps of all runs, by their names in
    `runs`."""
    workers = min(cores(), len(runs))
    if workers == 1:
        for name, (recipe, out) in runs.items():
            train_into(recipe, out, watcher=_steps_as_work(name, recipe, watcher))
        return
    spawning = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, which then do nothing
    reports: SimpleQueue[_Report] = spawning.SimpleQueue()  # whatever was put before the end is read before it
    ended = spawning.Event()
    listener = threading.Thread(target=_listen, args=(reports, watcher), daemon=True)
    listener.start()
    given = (reports, ended, max(1, cores() // workers))
    with ProcessPoolExecutor(workers, mp_context=spawning, initializer=_begin, initargs=given) as pool:
        try:
            _wait_for([pool.submit(_train, name, recipe, out) for name, (recipe, out) in runs.items()])
        except BaseException:  # Ctrl-C included: the others end at their next step
            ended.set()
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            reports.put(None)
            listener.join()


def _wait_for(running: list[Future[None]]) -> None:
    wait(running, return_when=FIRST_EXCEPTION)
    for one in running:
        if one.done():
            one.result()


def _listen(reports: SimpleQueue[_Report], watcher: Watcher) -> None:
    while (report := reports.get()) is not None:
        watcher.work(*report)


def _begin(reports: SimpleQueue[_Report], ended: Event, threads: int) -> None:
    """In a worker, before its first run."""
    global _reports, _ended
    import torch

    _reports, _ended = reports, ended
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one tells the others


def _train(name: str, recipe: Recipe, out: Path) -> None:
    train_into(recipe, out, watcher=_steps_as_work(name, recipe, Watcher(work=_report)))


def _report(what: str, done: int, total: int) -> None:
    if _ended.is_set():
        raise KeyboardInterrupt
    _reports.put((what, done, total))


def _steps_as_work(name: str, recipe: Recipe, watcher: Watcher) -> Watcher:
    steps = recipe.training.steps
    return Watcher(step=lambda report: watcher.work(name, report.step, steps), notice=watcher.notice)


@dataclass(frozen=True)
class Guide:
    """The settings of a station: how much to train, the folder for its runs, and a watcher for each training run.

    A station names the steps that suffice for what it shows. They do not depend on the speed of the machine, so that a tour ends
    with the same conclusions everywhere. `effort` multiplies them.
    """

    effort: float
    out: Path
    watching: Callable[[str], AbstractContextManager[Watcher]]

    def steps(self, enough: int) -> int:
        return max(_FEWEST, round(self.effort * enough))

    def shortened(self, recipe: Recipe, enough: int) -> Recipe:
        return shortened(recipe, self.steps(enough))

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return self.out / "runs" / name

    def train(self, what: str, runs: Mapping[str, tuple[str, Recipe]]) -> None:
        """Train recipes side by side. `runs`: for each model, as the tour calls it, the name of its run and its recipe."""
        prepared = {model: (recipe, self._cleared(run)) for model, (run, recipe) in runs.items()}
        with self.watching(what) as watcher:
            train_side_by_side(prepared, watcher)

    def _cleared(self, run: str) -> Path:
        """The folder of a run, after removing the run of an earlier tour from it."""
        path = self.run(run)
        if RunFolder(path).exists():
            shutil.rmtree(path)
        return path


Station = Callable[[Guide], Section]
