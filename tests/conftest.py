"""Fixtures for every test: a cache of its own, and the shared data or a skip that says why.

Random numbers come from explicit generators (`seeded(0)`), never from a global seed.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from firth import ideas

pytest_plugins = ["runs", "shell", "interpreter"]  # fixtures: small runs, firth called as the shell calls it, Triton on a CPU

# No deadline (a shared machine may pause for a second), and the same examples in every run.
for profile, examples in (("quick", 20), ("all", 60)):
    settings.register_profile(profile, deadline=None, derandomize=True, max_examples=examples, database=None)


def pytest_configure(config: pytest.Config) -> None:
    """FIRTH_CACHE is a fresh folder, for this process and for those it starts, before a test module is imported: kernels look for
    their cache on import. Workers share that of the process that starts them: what one has compiled, the others read."""
    settings.load_profile("quick" if config.option.markexpr == "not long" else "all")
    if hasattr(config, "workerinput"):
        return
    folder = Path(tempfile.mkdtemp(prefix="firth-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["FIRTH_CACHE"] = str(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file, but one worker opens all the pages of the lab: Chromium takes long to start, and to compile Plotly."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "the browser" if "/test_browser_" in file else file

    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


gc.disable()  # until all tests are collected: nothing is thrown away meanwhile, and looking for it takes a fifth of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)  # small models leave few cycles; looking for them as often as usual takes 4 % of the time
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """The tensors here are tiny: a second thread costs more than it brings, and much more on a busy machine. Bits depend on
    the number of threads, so the processes that tests start have one as well."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_flush() -> Iterator[None]:
    """No test cuts the power, and a worker that waits for its disk leaves a core idle. A closed descriptor is still refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


def _use() -> Iterator[Any]:
    """firth.use, undone afterwards."""
    yield ideas.use
    for place, origin in list(ideas._used.items()):
        for collection in ideas._COLLECTIONS:
            collection.leave(origin)
        del ideas._used[place]
    os.environ.pop(ideas.VARIABLE, None)
    for forget in ideas.changed:
        forget()


use = pytest.fixture(_use, name="use")
use_in_module = pytest.fixture(_use, name="use_in_module", scope="module")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored; the tests of Ctrl-C and their processes need it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def firth_data() -> Path:
    """The folder of shared data sets."""
    folder = os.environ.get("FIRTH_DATA")
    if not folder:
        pytest.skip("needs the shared data sets; set FIRTH_DATA to their folder")
    if not Path(folder).is_dir():
        pytest.skip(f"FIRTH_DATA is {folder}, which is not a folder")
    return Path(folder)
