"""A study as jobs of submitit, whose executor for one machine stands in for Slurm: there is none here."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from on_clusters import command, facts, saved_steps, times_begun, wait_for_checkpoints

from firth.experiments.clusters.slurm_cluster import SlurmCluster

pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="needs signals")]

ON_SLURM = ("--slurm", "cluster=local,time=60,partition=gpu", "--jobs", 2)


def jobs(out: Path) -> list[int]:
    """The processes of the jobs that are running."""
    processes = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"submitit.core._submit" in words and str(out / "slurm").encode() in words:
            processes.append(int(place.parent.name))
    return processes


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_jobs_that_are_killed_or_whose_time_is_up_go_on_in_others(study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", "--json", *ON_SLURM)
    wait_for_checkpoints(process, tmp_path / "out", 2)
    first, second = jobs(tmp_path / "out")
    os.kill(first, signal.SIGKILL)
    os.kill(second, signal.SIGUSR2)
    assert facts(process)["arms"] == alone
    assert sorted(times_begun(tmp_path / "out")) == [1, 1, 2, 2]
    assert len(list((tmp_path / "out" / "slurm").glob("*_submitted.pkl"))) == 6


def test_ctrl_c_saves_the_runs_of_all_jobs(study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", *ON_SLURM)
    wait_for_checkpoints(process, tmp_path / "out", 2)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert any(step % 20 for step in saved_steps(tmp_path / "out"))  # at which no checkpoint is due
    assert facts(command("reproduce", study, tmp_path / "out", "--json", *ON_SLURM))["arms"] == alone


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_jobs_stop_when_the_first_machine_dies(study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", *ON_SLURM)
    wait_for_checkpoints(process, tmp_path / "out", 2)
    process.kill()
    process.communicate()
    [sign] = (tmp_path / "out").glob(".writing-cluster-*")
    sign.unlink()  # or a minute later, by themselves
    end = time.monotonic() + 60
    while jobs(tmp_path / "out"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert facts(command("reproduce", study, tmp_path / "out", "--json"))["arms"] == alone


def test_slurm_gets_the_options_and_no_requeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit: Any = importlib.import_module("submitit")
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))
    given = {"partition": "gpu", "gres": "gpu:1", "time": "2:00:00", "exclusive": True, "reservation": "course"}
    executor = SlurmCluster(given)._executor(tmp_path, 1)
    lines = set(executor._executor._make_submission_file_text("python", "x").splitlines())
    asked = ("partition=gpu", "gres=gpu:1", "time=120", "exclusive", "reservation=course", "no-requeue", "cpus-per-task=1")
    assert {f"#SBATCH --{one}" for one in asked} <= lines
    assert any(line.startswith("#SBATCH --signal=USR2@") for line in lines)
