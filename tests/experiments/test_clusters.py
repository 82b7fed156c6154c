"""Runs handed to other machines, here without Ray and Slurm: what is sent there, what comes back, and what happens when a machine
dies. tests/experiments/test_ray.py and test_slurm.py try the real ones."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import torch
from shell import Firth
from test_studies import TABLE, report, written

from firth import ideas
from firth.errors import ConfigError, DataError, RunError
from firth.experiments import clusters
from firth.experiments.clusters import cluster_of, lease, pulse, remote_pool
from firth.experiments.clusters import remote_call as call
from firth.experiments.clusters.lease import leased
from firth.experiments.clusters.pulse import Pulse, Watched, machine
from firth.experiments.clusters.ray_cluster import gpu_share
from firth.experiments.clusters.remote_call import Outcome, RemoteCall, Site
from firth.experiments.clusters.remote_pool import Lost, RemotePool
from firth.experiments.clusters.slurm_cluster import minutes, read_settings
from firth.experiments.studies import reproduce as verb
from firth.experiments.studies.reproduce import reproduce
from firth.files import TEMPORARY


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits for seconds or for the disk, and this process keeps its priority and its threads."""
    monkeypatch.setattr(pulse, "BEAT", 0.02)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(call, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(call, "_TRIES", 1)
    monkeypatch.setattr(lease, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(call, "_niced", True)
    monkeypatch.setattr(remote_pool, "LOOK_EVERY", 0.02)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process counts as dead after a second."""
    monkeypatch.setattr(pulse, "SILENT", 1.0)


# What a user asks for


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("partition=gpu,time=2:00:00", {"partition": "gpu", "time": "2:00:00"}),
        ("gres=gpu:a100:1,mail-type=END,FAIL,time=60", {"gres": "gpu:a100:1", "mail_type": "END,FAIL", "time": 60}),
        ("nodelist=a1,a2,exclusive=true", {"nodelist": "a1,a2", "exclusive": True}),
        ("constraint=a|b=c", {"constraint": "a|b=c"}),
    ],
)
def test_the_options_of_slurm_are_those_of_sbatch(text: str, settings: dict[str, Any]) -> None:
    assert read_settings(text) == settings


@pytest.mark.parametrize("text", ["", "=gpu", "partition=", "2:00:00", "exclusive", "time=1,time=2", "Partition=gpu"])
def test_what_is_no_option_of_sbatch_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--slurm"):
        read_settings(text)


@pytest.mark.parametrize(
    ("time", "expected"), [(90, 90), ("90", 90), ("90:30", 91), ("2:00:00", 120), ("1-0", 1440), ("1-2:30", 1590), ("0:10", 1)]
)
def test_the_time_of_slurm_is_read_in_minutes(time: Any, expected: int) -> None:
    assert minutes(time) == expected


@pytest.mark.parametrize("time", ["soon", "1:2:3:4", "-5", "1-"])
def test_a_time_that_slurm_does_not_know_is_refused(time: str) -> None:
    with pytest.raises(ConfigError, match=f'time is "{time}"'):
        minutes(time)


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
def test_every_gpu_takes_its_share_of_the_runs(gpus: int) -> None:
    for jobs in range(1, 40):
        share = gpu_share(jobs, gpus)
        assert 0 < share <= 1
        assert gpus * int(1 / share + 1e-9) >= jobs  # all of them fit at once
        assert round(share * 10_000) * int(1 / share + 1e-9) <= 10_000  # in Ray's rounding, too
    assert gpu_share(gpus, gpus) == 1
    assert gpu_share(8, 0) == 0


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, own: Path, firth: Firth) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("ray", "submitit") else find(name))
    for option, extra in ((("--ray", "auto"), "ray"), (("--slurm", "time=5", "--jobs", "2"), "slurm")):
        answer = firth("reproduce", own, "--out", own.parent / "out", *option)
        assert (answer.code, answer.out) == (2, "")
        assert f"firth: {option[0]} needs the package {'submitit' if extra == 'slurm' else 'ray'}. " in answer.err
        assert f'pip install "firth[{extra}]"' in answer.err
    with pytest.raises(ConfigError, match=r"^ray needs the package ray"):
        reproduce(own, ray="auto", out=own.parent / "out", progress=False)
    assert not (own.parent / "out").exists()


@pytest.mark.parametrize(
    ("ray", "slurm", "jobs", "message"),
    [
        ("auto", {"time": 5}, 2, "give one of ray and slurm"),
        ("local", None, None, 'ray is "local"; expected the address'),
        (None, {"time": 5}, None, "slurm needs jobs"),
        (None, {"time": "soon"}, 2, 'time is "soon"'),
        (None, {"cluster": "debug"}, 2, "choose slurm or local"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(
    ray: str | None, slurm: Any, jobs: int | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_expect", lambda *given: None)
    with pytest.raises(ConfigError, match=message):
        cluster_of(ray, slurm, jobs)


# A pool whose machines are this process


class Machines(RemotePool[list[Any]]):
    """Runs a call at once, or what `instead` says, and tells the outcome when it is asked for."""

    def __init__(self, folder: Path, *instead: Outcome | Lost, forever: bool = False) -> None:
        self.instead, self.forever, self.interrupted, self.calls = list(instead), forever, 0, 0
        super().__init__(folder, 1)

    def _start(self, call: RemoteCall) -> list[Any]:
        self.calls += 1
        if self.forever:
            return []
        return [self.instead.pop(0) if self.instead else call()]

    def _ended(self, handles: Sequence[list[Any]]) -> Sequence[list[Any]]:
        time.sleep(0.01)
        return [one for one in handles if one]

    def _outcome(self, handle: list[Any]) -> Outcome:
        if isinstance(handle[0], Lost):
            raise handle[0]
        outcome: Outcome = handle[0]
        return outcome

    def _interrupt(self, handle: list[Any]) -> None:
        self.interrupted += 1
        handle.append(Outcome(stopped=True))

    def _kill(self, handle: list[Any]) -> None:
        raise AssertionError("it has stopped")


def told(text: str) -> str:
    return f"told {text}"


def failing() -> None:
    raise DataError("there is no text")


def signs(folder: Path) -> list[Path]:
    return list(folder.glob(f"{TEMPORARY}cluster-*"))


def test_a_task_comes_back_with_its_value_or_its_error(tmp_path: Path) -> None:
    with Machines(tmp_path) as pool:
        assert pool.submit(told, "it").result(5) == "told it"
        with pytest.raises(DataError, match="there is no text"):
            pool.submit(failing).result(5)
        mistake = pool.submit(told)
        with pytest.raises(TypeError, match="missing 1 required"):
            mistake.result(5)
        error = mistake.exception()
        assert "Traceback" in error.__notes__[0]  # type: ignore[union-attr]
        assert len(signs(tmp_path)) == 1
    assert not signs(tmp_path)


def test_a_task_whose_machine_died_or_was_needed_is_handed_out_again(tmp_path: Path) -> None:
    with Machines(tmp_path, Lost("node 3 died"), Outcome(stopped=True), Lost("node 4 died")) as pool:
        assert pool.submit(told, "it").result(5) == "told it"
        assert pool.calls == 4


def test_a_task_that_is_lost_again_and_again_ends_the_study(tmp_path: Path) -> None:
    with Machines(tmp_path, *[Lost(f"node {n} died") for n in range(20)]) as pool:
        with pytest.raises(RunError, match=r"was lost 5 times, last because node 4 died\. Its checkpoints are kept"):
            pool.submit(told, "it").result(5)
        assert pool.calls == 5


def test_ctrl_c_stops_all_tasks_and_hands_out_none(tmp_path: Path) -> None:
    pool = Machines(tmp_path, forever=True)
    tasks = [pool.submit(told, str(n)) for n in range(3)]
    with pytest.raises(KeyboardInterrupt), pool:
        raise KeyboardInterrupt
    assert all(isinstance(one.exception(5), CancelledError) for one in tasks)
    assert (pool.calls, pool.interrupted) == (3, 3)
    assert not signs(tmp_path)


def test_an_error_of_the_cluster_reaches_whoever_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Machines, handles: Any) -> Any:
        raise RunError("the connection is lost")

    monkeypatch.setattr(Machines, "_ended", broken)
    with Machines(tmp_path) as pool, pytest.raises(RunError, match="connection is lost"):
        pool.submit(told, "it").result(5)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return written(tmp_path, TABLE)


class OneCluster:
    def __init__(self, *lost: Lost) -> None:
        self.lost = lost

    @contextlib.contextmanager
    def pool(self, jobs: int | None, most: int, threads: int, folder: Path) -> Iterator[tuple[int, Machines]]:
        with Machines(folder, *self.lost) as self.machines:
            yield min(jobs or 2, most), self.machines


def test_a_study_on_a_cluster_gives_the_table_of_one_machine(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    alone = report(own, tmp_path / "alone", "one")
    cluster = OneCluster(Lost("node 1 died"))
    monkeypatch.setattr(verb, "cluster_of", lambda *given: cluster)
    elsewhere = reproduce(own, scale="one", out=tmp_path / "elsewhere", progress=False)
    assert cluster.machines.calls == 2
    assert elsewhere.facts() == alone.facts()
    assert [path.name for path in (tmp_path / "elsewhere" / "runs").iterdir()] == ["gru-0"]


# What another machine does


def called(place: Path, task: Callable[..., Any], *given: Any, **site: Any) -> Outcome:
    sign = Pulse(place / "sign")
    try:
        here = Site.here(sign.path, 1)
        return RemoteCall.of(Site(**vars(here) | site), task, *given)()
    finally:
        sign.end()


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    outcome = RemoteCall.of(Site.here(tmp_path / "elsewhere" / "sign", 1), told, "it")()
    assert isinstance(outcome.error, RunError)
    message = f"does not see {tmp_path / 'elsewhere'} of {os.uname().nodename}. Choose a folder that all machines share"
    assert message in str(outcome.error)
    there_but_another = RemoteCall.of(Site.here(tmp_path / "sign", 1), told, "it")()
    assert "does not see" in str(there_but_another.error)
    outcome = called(tmp_path, told, "it", folder=str(tmp_path / "work"))
    assert f"has no folder {tmp_path / 'work'}. Start the command in a folder that all machines share" in str(outcome.error)


def test_another_version_of_firth_is_refused(tmp_path: Path) -> None:
    outcome = called(tmp_path, told, "it", version="0.0.1")
    assert "but the command runs firth 0.0.1. Install the same version" in str(outcome.error)


CELL = """
from firth.layers.recurrent import GRU

class NewCell(GRU):
    kind = "{kind}"
"""


def kinds() -> tuple[str, ...]:
    return ideas.own_kinds("recurrent cell")


def test_ideas_in_use_and_the_current_folder_are_those_of_the_first_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cell.py").write_text(CELL.format(kind="cell_of_a_cluster"))
    monkeypatch.setenv(ideas.VARIABLE, str(tmp_path / "cell.py"))
    environment = Site.here(tmp_path / "sign", 1).environment
    assert environment[ideas.VARIABLE] == str(tmp_path / "cell.py")
    monkeypatch.delenv(ideas.VARIABLE)
    monkeypatch.chdir(Path.home())
    assert called(tmp_path, os.getcwd, folder=str(tmp_path)).value == str(tmp_path)
    try:
        assert "cell_of_a_cluster" in called(tmp_path, kinds, environment=environment).value
    finally:
        origin = ideas._used.pop((tmp_path / "cell.py").resolve())
        for collection in ideas._COLLECTIONS:
            collection.leave(origin)
        os.environ.pop(ideas.VARIABLE)


def waiting() -> str:
    time.sleep(10)
    return "nobody has stopped this"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2])
def test_signals_stop_a_task(number: int, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    threading.Timer(0.1, lambda: os.kill(os.getpid(), number)).start()
    assert called(tmp_path, waiting) == Outcome(stopped=True)
    assert signal.getsignal(number) == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("how", ["removed", "silent"])
def test_a_task_stops_with_the_first_machine(how: str, soon: None, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    sign.write_text("other-machine 1 1")
    if how == "removed":
        threading.Timer(0.2, sign.unlink).start()
    assert RemoteCall.of(Site.here(sign, 1), waiting)() == Outcome(stopped=True)


# One process for each run


def test_the_lease_of_a_live_process_is_waited_for(tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    monkeypatch.setattr(os, "_exit", lambda code: order.append("lost"))

    def second() -> None:
        with leased(tmp_path / "run"):
            order.append("second")

    with leased(tmp_path / "run"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(1.5 * pulse.SILENT)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]
    assert not list(tmp_path.iterdir())


def test_the_lease_of_a_dead_process_of_this_machine_is_taken_at_once(tmp_path: Path) -> None:
    (tmp_path / "run.lease").write_text(f"{machine()} token 7")
    assert Watched(tmp_path / "run.lease").is_dead()
    with leased(tmp_path / "run"):
        assert not Watched(tmp_path / "run.lease").is_dead()


def test_the_lease_of_another_machine_is_taken_when_it_is_silent(tmp_path: Path, soon: None) -> None:
    place = tmp_path / "run.lease"
    place.write_text("other-machine token 0")
    ended = threading.Event()

    def beat() -> None:
        for n in range(1, 8):
            time.sleep(0.2)
            place.write_text(f"other-machine token {n}")
        ended.set()

    thread = threading.Thread(target=beat)
    thread.start()
    with leased(tmp_path / "run"):
        assert ended.is_set()
        thread.join()


def test_a_new_lease_is_given_back_by_whoever_took_it_for_a_dead_one(tmp_path: Path) -> None:
    place = tmp_path / "run.lease"
    place.write_text("other-machine token 1")
    late = Watched(place)
    late.look()
    place.write_text("third-machine token 1")
    late.remove()
    assert place.read_text() == "third-machine token 1"
    assert [path.name for path in tmp_path.iterdir()] == ["run.lease"]


def test_an_owner_hears_that_its_file_is_gone_or_that_it_was_silent_for_too_long(tmp_path: Path) -> None:
    for how in ("gone", "replaced", "late"):
        lost = threading.Event()
        owner = Pulse(tmp_path / how, lost.set)
        time.sleep(0.1)
        assert not lost.is_set()
        if how == "gone":
            owner.path.unlink()
        elif how == "replaced":
            owner.path.unlink()
            owner.path.write_text("other-machine token 1")
        else:
            owner._last -= pulse.LATE  # as if the process had been suspended
        assert lost.wait(5), how
        owner.end()
    assert [path.name for path in tmp_path.iterdir()] == ["replaced"]  # it belongs to somebody else


def test_a_first_machine_that_was_suspended_goes_on(tmp_path: Path) -> None:
    sign = Pulse(tmp_path / "sign")
    sign._last -= pulse.LATE
    time.sleep(0.1)
    before = sign.path.read_bytes()
    time.sleep(0.3)
    assert sign.path.read_bytes() != before
    sign.end()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_process_that_comes_back_after_it_was_taken_for_dead_ends_at_once(tmp_path: Path, soon: None) -> None:
    script = f"""
import time
from pathlib import Path
from firth.experiments.clusters import pulse
from firth.experiments.clusters.lease import leased
pulse.BEAT = 0.02
with leased(Path({str(tmp_path / "run")!r})):
    while True:
        with Path({str(tmp_path / "wrote")!r}).open("a") as file:
            file.write("first ")
        time.sleep(0.05)
"""
    first = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "wrote").exists():
        assert first.poll() is None
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGSTOP)
    with leased(tmp_path / "run"):  # the lock is still held, but nothing beats
        before = (tmp_path / "wrote").read_text().split()
        os.kill(first.pid, signal.SIGCONT)
        _, err = first.communicate(timeout=10)
        assert first.returncode == 1
        assert "another process has taken over" in err
        assert len((tmp_path / "wrote").read_text().split()) <= len(before) + 1
