"""Real processes: killed, interrupted, out of disk. What they leave behind resumes to the bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nursery import PATIENCE, Child, Nursery, nursery_in
from tiny_runs import (
    assert_identical,
    assert_no_temporaries,
    contents,
    firth_process,
    outcome,
    recipe_file,
    steps_saved,
    tiny,
    undisturbed,
)

from firth.api import load, train_recipe
from firth.api.recipe import Recipe

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals, fork and limits of POSIX")


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery_in(tmp_path_factory.mktemp("nursery")) as nursery:
        yield nursery


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what was said on stderr."""
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def long_run(steps: int) -> Recipe:
    """Half of its time goes into writing, so that half of all kills hit a write."""
    return tiny(
        "lstm", dropout=0.2, steps=steps, carry=True, checkpoint_every=3, evaluate_every=20, log_every=7, schedule="constant"
    )


def kill_and_resume(nursery: Nursery, kills: int, steps: int, folder: Path) -> None:
    recipe = recipe_file(long_run(steps), folder)
    whole, parts = folder / "whole", folder / "parts"
    reference = firth_process("train", recipe, "--out", whole)
    moments = random.Random(0)
    for kill in range(1, kills + 1):
        child = nursery.start("train", recipe, "--out", parts, "--resume")
        child.reaches(parts, kill * steps // (kills + 1))
        time.sleep(moments.uniform(0, 0.05))
        child.send(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, f"kill {kill} came after the end; the run is too short for this machine"
    last = nursery.start("train", recipe, "--out", parts, "--resume")
    last.reaches(parts, steps)
    assert last.wait() == 0, last.said()
    assert "damaged" not in last.said()
    assert ended(reference)[0] == 0
    assert_identical(outcome(parts), outcome(whole))
    assert_no_temporaries(parts)


@pytest.mark.long
def test_2_kills_at_random_moments_do_not_change_a_bit(nursery: Nursery, tmp_path: Path) -> None:
    kill_and_resume(nursery, 2, 180, tmp_path)


@pytest.mark.long
def test_50_kills_at_random_moments_do_not_change_a_bit(nursery: Nursery, tmp_path: Path) -> None:
    kill_and_resume(nursery, 50, 3060, tmp_path)


# --- signals

RECIPE = tiny(dropout=0.2, steps=20_000, checkpoint_every=3, log_every=1, schedule="constant")


def continued(run: Path, step: int) -> None:
    """Resumed here for three more steps, a run is what it would have been without the stop."""
    longer = tiny(dropout=0.2, steps=step + 3, checkpoint_every=3, log_every=1, schedule="constant")
    train_recipe(longer, run, resume=True)
    expected = undisturbed(longer, run.parent / "whole")
    assert_identical(outcome(run), expected)
    assert_no_temporaries(run)


def started(nursery: Nursery, folder: Path) -> Child:
    """A process that has trained for some steps."""
    child = nursery.start("train", recipe_file(RECIPE, folder), "--out", folder / "run")
    child.reaches(folder / "run", 3)
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)])
def test_a_signal_saves_the_step_it_came_in_and_says_how_to_go_on(
    number: int, code: int, nursery: Nursery, tmp_path: Path
) -> None:
    child = started(nursery, tmp_path)
    child.send(number)
    assert child.wait() == code, child.said()
    step = steps_saved(tmp_path / "run")[-1]
    assert child.said().splitlines() == [f"firth: stopped at step {step} of 20000; saved. Add --resume to continue"]
    assert outcome(tmp_path / "run")["log"][-1]["step"] == step
    continued(tmp_path / "run", step)


@pytest.mark.long
@pytest.mark.parametrize("pause", [0.0, 0.001, 0.003, 0.01])
def test_a_second_ctrl_c_at_once_leaves_everything_intact(pause: float, nursery: Nursery, tmp_path: Path) -> None:
    child = started(nursery, tmp_path)
    for _ in range(2):
        child.send(signal.SIGINT)
        time.sleep(pause)
    assert child.wait() in (130, -signal.SIGINT), child.said()  # the latter where Python itself was already leaving
    continued(tmp_path / "run", steps_saved(tmp_path / "run")[-1])


# --- disks that are full

FULL: dict[str, Any] = {"width": 24, "valid": 0.0, "checkpoint_every": 2, "schedule": "constant"}
WHOLE = tiny("lstm", steps=8, **FULL)


def half_done(folder: Path) -> tuple[dict[Path, bytes], dict[str, Any]]:
    """A run that has done 4 steps of WHOLE: its checkpoints; and what the 8 steps of WHOLE end in."""
    train_recipe(tiny("lstm", steps=4, **FULL), folder / "run")
    return contents(folder / "run" / "checkpoints"), undisturbed(WHOLE, folder / "whole")


def assert_one_line(process: subprocess.Popen[str], *parts: str) -> None:
    code, said = ended(process)
    assert code == 2, said
    lines = [line for line in said.splitlines() if not line.startswith("training ")]
    assert len(lines) == 1, said
    assert lines[0].startswith("firth: cannot write ")
    for part in parts:
        assert part in lines[0]


@pytest.mark.long
def test_a_file_that_may_not_grow_fails_the_checkpoint_in_one_line_and_keeps_the_earlier_ones(tmp_path: Path) -> None:
    before, expected = half_done(tmp_path)
    run = tmp_path / "run"
    weights = (run / "model.safetensors").stat().st_size
    assert all(len(content) > 2 * weights for content in before.values())  # the limit lets weights and log pass
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({2 * weights}, {2 * weights}))"
    )
    process = firth_process("train", recipe_file(WHOLE, tmp_path), "--out", run, "--resume", before=limit)
    assert_one_line(process, str(run / "checkpoints" / "step-00000006.safetensors"), "File too large")
    assert contents(run / "checkpoints") == before
    assert_no_temporaries(run)
    train_recipe(WHOLE, run, resume=True)
    assert_identical(outcome(run), expected)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if not mount or os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine does not let root mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # a tensor that was read may still look at its file


@pytest.mark.long
def test_a_full_disk_fails_the_checkpoint_in_one_line_and_keeps_the_earlier_ones(small_disk: Path, tmp_path: Path) -> None:
    before, expected = half_done(tmp_path)
    run = Path(shutil.copytree(tmp_path / "run", small_disk / "run"))
    room = len(next(iter(before.values()))) // 2  # for weights and log, not for a checkpoint
    filler = small_disk / "filler"
    free = shutil.disk_usage(small_disk).free
    filler.write_bytes(b"\0" * (free - room - (free - room) % 4096))
    process = firth_process("train", recipe_file(WHOLE, tmp_path), "--out", run, "--resume")
    assert_one_line(process, "No space left on device")
    assert sorted(contents(run / "checkpoints").values()) == sorted(before.values())
    assert_no_temporaries(run)
    load(run, "cpu")
    filler.unlink()
    train_recipe(WHOLE, run, resume=True)
    assert_identical(outcome(run), expected)
