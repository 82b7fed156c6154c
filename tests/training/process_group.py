"""Train tables in groups of processes: `python process_group.py JOBS FOLDER`. One interpreter imports torch and forks the others.

JOBS is a JSON file with a list of groups; a group is a number of processes and a list of trainings, each with a name, the table
of a recipe, whether to resume, the type of its weights, and the seconds that a disk takes to write a checkpoint. The losses of
each training are written to FOLDER/NAME.json. A job with options to "evaluate" measures a run instead.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from firth import files
from firth.api import Watcher, compose, load, train_recipe

SECONDS = 240


def work(job: dict[str, Any], folder: Path) -> None:
    torch.set_default_dtype(getattr(torch, job.get("dtype", "float64")))
    if "evaluate" in job:
        measured = load(folder / job["run"]).evaluate(**job["evaluate"])
        (folder / f"{job['name']}-{os.environ['RANK']}.json").write_text(json.dumps(measured), encoding="utf-8")
        return
    seconds = job.get("disk", 0.0)
    shards, weights = slow(HuggingFaceStorageWriter.write_data, seconds), slow(files.save_tensors, seconds)
    with (
        unittest.mock.patch.object(HuggingFaceStorageWriter, "write_data", shards),
        unittest.mock.patch.object(files, "save_tensors", weights),
    ):
        train(job, folder)


def slow(write: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def wait(*given: Any) -> Any:
        time.sleep(seconds)
        return write(*given)

    return wait


def train(job: dict[str, Any], folder: Path) -> None:
    began = time.process_time()
    losses: list[float] = []
    said: list[str] = []
    watcher = Watcher(step=lambda seen: losses.append(seen.loss), notice=said.append)
    train_recipe(compose(job["table"]), folder / job.get("run", job["name"]), resume=job.get("resume", False), watcher=watcher)
    if int(os.environ["RANK"]) == 0:
        report = {"losses": losses, "said": said, "seconds": time.process_time() - began}
        (folder / f"{job['name']}.json").write_text(json.dumps(report), encoding="utf-8")
    else:
        assert not losses, "only the first process is watched"


def member(rank: int, world: int, jobs: list[dict[str, Any]], folder: Path, store: Path) -> int:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        for job in jobs:
            work(job, folder)
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run(number: int, group: dict[str, Any], folder: Path) -> None:
    world, children = group["world"], []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            os._exit(member(rank, world, group["jobs"], folder, folder / f"store-{number}"))
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"group {number} of {world} processes failed")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, group in enumerate(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))):
        run(number, group, Path(sys.argv[2]))
