"""torchrun starts the processes: one log and one run folder, a signal to all of them, a worker that dies, one that hangs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tiny_runs import assert_identical, assert_no_temporaries, outcome, recipe_file, steps_saved, tiny

from firth.api import load
from firth.training.log import read as read_log

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

PATIENCE = 1200  # a busy machine takes minutes to start four interpreters


MACHINE = ("--standalone", "--nproc-per-node=2")


def torchrun(*arguments: str | Path, restarts: int = 0, where: Sequence[str] = MACHINE) -> subprocess.Popen[str]:
    command = ["-m", "torch.distributed.run", *where, f"--max-restarts={restarts}", "-m", "firth"]
    return subprocess.Popen(
        [sys.executable, *command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def workers(launcher: subprocess.Popen[str]) -> dict[int, int]:
    """The process of each rank."""
    of_rank = {}
    for child in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
        facts = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        ranks = [int(fact[5:]) for fact in facts if fact.startswith(b"RANK=")]
        of_rank |= dict.fromkeys(ranks, int(child))
    return of_rank


def reaches(run: Path, step: int, launcher: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE
    while not any(line["step"] >= step for line in read_log(run / "log.jsonl")):
        assert launcher.poll() is None, launcher.communicate()[1][-3000:]
        assert time.monotonic() < until, "no such step"
        time.sleep(0.02)


def ended(launcher: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, complained = launcher.communicate(timeout=PATIENCE)
    return launcher.returncode, said, complained


def recipe(folder: Path, **training: float | str) -> Path:
    settings = {"steps": 300, "batch": 4, "checkpoint_every": 10, "schedule": "constant", "log_every": 1, "timeout": 30}
    return recipe_file(tiny("transformer", **(settings | training)), folder)


def test_two_processes_write_one_log_one_line_and_one_folder(tmp_path: Path) -> None:
    given = recipe(tmp_path, steps=20)
    code, said, complained = ended(torchrun("train", given, "--out", tmp_path / "run", "--json"))
    assert code == 0, complained
    assert json.loads(said)["run"] == str(tmp_path / "run")
    assert complained.count("training 20/20") == 1
    assert [line["step"] for line in read_log(tmp_path / "run" / "log.jsonl")] == list(range(1, 21))
    assert load(tmp_path / "run").generate("1 times", tokens=3, seed=0)
    code, said, complained = ended(torchrun("evaluate", tmp_path / "run", "--json"))
    assert code == 0, complained
    measured, expected = json.loads(said), load(tmp_path / "run").evaluate()
    assert measured["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert measured["tokens"] == expected["tokens"]
    assert_no_temporaries(tmp_path / "run")
    code, _, complained = ended(torchrun("train", given, "--out", tmp_path / "run"))
    assert code == 1
    assert complained.count("already holds a run. Add --resume") == 1


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_signal_to_all_processes_saves_once_and_ends_them_with_0(tmp_path: Path, parallel: str) -> None:
    given = recipe(tmp_path, parallel=parallel, checkpoint_every=0)
    launcher = torchrun("train", given, "--out", tmp_path / "run")
    reaches(tmp_path / "run", 5, launcher)
    processes = workers(launcher).values()
    for _ in range(2):  # as a scheduler and torchrun do, and not so soon that the two would be one
        for process in processes:
            os.kill(process, signal.SIGTERM)
        time.sleep(0.01)
    code, _, complained = ended(launcher)
    assert code == 0, complained
    assert complained.count("; saved. Add --resume to continue") == 1
    stopped = read_log(tmp_path / "run" / "log.jsonl")[-1]["step"]
    assert steps_saved(tmp_path / "run") == [stopped]
    code, _, complained = ended(
        torchrun("train", given, "--out", tmp_path / "run", "--resume", f"--training.steps={stopped + 3}")
    )
    assert code == 0, complained
    assert [line["step"] for line in read_log(tmp_path / "run" / "log.jsonl")] == list(range(1, stopped + 4))


def dies(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def hangs(process: int) -> None:
    os.kill(process, signal.SIGSTOP)


@pytest.mark.parametrize(
    ("fails", "rank"), [(dies, 0), (dies, 1), (hangs, 1)], ids=["rank 0 dies", "rank 1 dies", "rank 1 hangs"]
)
def test_a_worker_that_fails_is_restarted_and_not_a_bit_changes(fails: Callable[[int], None], rank: int, tmp_path: Path) -> None:
    given = recipe(tmp_path, steps=120)
    whole = torchrun("train", given, "--out", tmp_path / "whole")
    assert ended(whole)[0] == 0
    launcher = torchrun("train", given, "--out", tmp_path / "run", restarts=1)
    reaches(tmp_path / "run", 25, launcher)
    fails(workers(launcher)[rank])
    code, _, complained = ended(launcher)
    assert code == 0, complained[-3000:]
    assert_identical(outcome(tmp_path / "run"), outcome(tmp_path / "whole"))
    assert_no_temporaries(tmp_path / "run")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_on_a_gpu_a_group_of_one_trains_as_a_process_alone(parallel: str, tmp_path: Path) -> None:
    """With NCCL, checkpoints of FSDP, and a run that goes on without torchrun; in float32, and in bfloat16 with recomputation."""
    where, half = ("--standalone", "--nproc-per-node=1"), {"dtype": "bf16", "reduce": "bf16", "recompute": True}
    for name, settings in {"whole": {}, "half": half}.items():
        given = recipe(tmp_path, steps=40, device="cuda", **settings)
        alone, run = tmp_path / f"alone-{name}", tmp_path / f"run-{name}"
        command = [sys.executable, "-m", "firth", "train", str(given), "--out"]
        subprocess.run([*command, str(alone)], check=True)
        code, _, complained = ended(
            torchrun("train", given, "--out", run, f"--training.parallel={parallel}", "--training.steps=30", where=where)
        )
        assert code == 0, complained[-3000:]
        assert steps_saved(run)[-1] == 30
        subprocess.run([*command, str(run), "--resume"], check=True)
        losses, expected = ([line["loss"] for line in read_log(one / "log.jsonl")] for one in (run, alone))
        assert losses == pytest.approx(expected, rel=0.02 if settings else 1e-4)
        assert losses[-1] < 0.8 * losses[0]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def machine(given: Path, run: Path, port: int) -> subprocess.Popen[str]:
    """One of two, each with one process; a launcher stands in for it."""
    meet = [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-backend=c10d", "--rdzv-id=7", "--local-addr=127.0.0.1"]
    return torchrun("train", given, "--out", run, restarts=1, where=["--nnodes=2", "--nproc-per-node=1", *meet])


def test_a_worker_that_dies_on_one_of_two_machines_is_restarted_on_both(tmp_path: Path) -> None:
    given, run, port = recipe(tmp_path, steps=120), tmp_path / "run", free_port()
    assert ended(torchrun("train", given, "--out", tmp_path / "whole"))[0] == 0
    launchers = [machine(given, run, port) for _ in range(2)]
    reaches(run, 25, launchers[0])
    dies(next(iter(workers(launchers[1]).values())))
    for launcher in launchers:
        code, _, complained = ended(launcher)
        assert code == 0, complained[-3000:]
    assert_identical(outcome(run), outcome(tmp_path / "whole"))
