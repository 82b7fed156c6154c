"""kill −9 at random moments, again and again: what was finished stays, and what ends at last equals an undisturbed run.

FIRTH_FAULT_KILLS sets how many kills a training gets before and after checkpoints in the long tests: 20 each unless told
otherwise, 200 in `make faults`. The other commands get a fifth of that, at any moment."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nursery import PATIENCE, Child, Nursery, newest, nursery_in
from tiny_runs import assert_identical, assert_no_temporaries, outcome, recipe_file, tiny
from translations import pair_table, pairs_of, write_pairs

from firth import files
from firth.api import compose, train_recipe
from firth.training.folder import RunFolder
from firth.training.log import read as read_log

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and fork of POSIX")
KILLS = int(os.environ.get("FIRTH_FAULT_KILLS", "20"))
FEW = max(5, KILLS // 5)
QUICK = 3
TEXT = "".join(f"{n} times {m} is {n * m}.\n" for n in range(1, 60) for m in range(1, 60))


@dataclass(frozen=True)
class Command:
    """A command that may be killed at any time and is then given again; `result` is what it leaves when it has ended."""

    arguments: tuple[str | Path, ...]
    done: Callable[[], bool]  # whether it ended before the kill
    result: Callable[[], Any]


Make = Callable[[Path], Command]
Tally = Callable[[str, Mapping[str, int]], None]


def training(folder: Path, **more: Any) -> Command:
    """Half of its time goes into writing."""
    settings: dict[str, Any] = {"steps": 150, "carry": True, "checkpoint_every": 3, "evaluate_every": 25, "log_every": 7} | more
    recipe = recipe_file(tiny("lstm", dropout=0.2, **settings), folder)
    run = folder / "run"

    def result() -> Any:
        assert_no_temporaries(run)
        return outcome(run)

    finished = run / "checkpoints" / f"step-{settings['steps']:08d}.safetensors"
    return Command(("train", recipe, "--out", run, "--resume"), finished.exists, result)


def caching(folder: Path) -> Command:
    """Most of its time goes into counting characters, learning a vocabulary, and encoding."""
    (folder / "text.txt").parent.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(TEXT * 4)
    table = {
        "data": {"path": str(folder / "text.txt"), "valid": 0.1},
        "tokenizer": {"kind": "bpe", "vocab": 400},
        "model": {"kind": "gru", "width": 4},
        "training": {"steps": 1, "batch": 2, "context": 8, "device": "cpu", "evaluate_every": 0},
    }
    recipe = folder / "caching.toml"
    recipe.write_text(compose(table).toml())
    run = folder / "run"

    def result() -> Any:
        caches = {path.suffix: path.read_bytes() for path in sorted((folder / "cache").glob("tokens-*.bin"))}
        return {**{key: value for key, value in outcome(run).items() if key != "log"}, "cache": sorted(caches.items())}

    finished = run / "checkpoints" / "step-00000001.safetensors"
    return Command(("train", recipe, "--out", run, "--resume"), finished.exists, result)


def vectors(folder: Path) -> Command:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(TEXT)
    out = folder / "v.firth"
    arguments = ("vectors", "train", folder / "text.txt", "--out", out, "--dim", "8", "--epochs", "2", "--deterministic")
    return Command(arguments, out.exists, out.read_bytes)


def translating(folder: Path) -> Command:
    table = pair_table(write_pairs(_made(folder) / "pairs.tsv", pairs_of()[:60]), steps=2, evaluate_every=0)
    table["data"] |= {"valid": 0.0}
    run = folder / "run"
    train_recipe(compose(table), run)
    (folder / "in.txt").write_text("".join(f"{source}\n" for source, _ in pairs_of()))
    out = folder / "out.txt"

    def result() -> Any:
        return out.read_text(), [path.name for path in folder.glob("out.txt.*") if path.name != "out.txt.part.json"]

    return Command(("translate", run, "--file", folder / "in.txt", "--out", out, "--resume"), out.exists, result)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


COMMANDS: dict[str, Make] = {"training": training, "caching": caching, "vectors train": vectors, "translate --out": translating}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery_in(tmp_path_factory.mktemp("nursery")) as nursery:
        yield nursery


def to_the_end(nursery: Nursery, command: Command, folder: Path) -> float:
    """Let it run; the seconds it took."""
    began = time.monotonic()
    child = started(nursery, command, folder)
    assert child.wait() == 0, child.said()
    return time.monotonic() - began


def started(nursery: Nursery, command: Command, folder: Path) -> Child:
    return nursery.start(*command.arguments, FIRTH_CACHE=str(folder / "cache"))


def wait_for(child: Child, seconds: float) -> float | None:
    """Wait so long, or until it ends: then how long it took, so that the next kill does not come too late again."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        if child.ended():
            return passed
        time.sleep(0.002)
    return None


def survives(nursery: Nursery, make: Make, kills: int, folder: Path) -> dict[str, int]:
    """Kill it `kills` times, in as many rounds as that takes: a round ends when the command does."""
    whole = make(folder / "whole")
    seconds = to_the_end(nursery, whole, folder / "whole")
    expected = whole.result()
    moments, done = random.Random(kills), 0
    for round in itertools.count():
        place = folder / f"round-{round}"
        command = make(place)
        for _ in range(8):  # at most: then it may end
            child = started(nursery, command, place)
            seconds = wait_for(child, moments.uniform(0, seconds)) or seconds
            child.send(signal.SIGKILL)
            code = child.wait()
            assert code in (0, -signal.SIGKILL), child.said()
            done += code == -signal.SIGKILL
            if code == 0 or command.done() or done == kills:
                break
        if not command.done():
            child = started(nursery, command, place)
            assert child.wait() == 0, child.said()
            assert "damaged" not in child.said()
        assert_identical(command.result(), expected, f"round {round}")
        if done >= kills:
            return {"kills": done, "runs, all as undisturbed": round + 1}
    raise AssertionError


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_lose_nothing(name: str, nursery: Nursery, tmp_path: Path, tally: Tally) -> None:
    tally(f"`{name}` killed at any moment", survives(nursery, COMMANDS[name], FEW, tmp_path))


# Aimed at the moments around a checkpoint


def killed_around_a_checkpoint(child: Child, run: Path, after: bool, seconds: float) -> bool | None:
    """Kill it just after its first new checkpoint is there, or before that, within `seconds`. Whether there was a new one; None
    if it ended by itself."""
    last, end = newest(run), time.monotonic() + (PATIENCE if after else seconds)
    while time.monotonic() < end and newest(run) == last and not child.ended():
        time.sleep(0.0005)
    child.send(signal.SIGKILL)
    return newest(run) > last if child.wait() == -signal.SIGKILL else None


def survives_around_checkpoints(nursery: Nursery, kills: int, folder: Path) -> dict[str, int]:
    """`kills` before a new checkpoint and as many after one, at most eight of them in each run; every run ends as the undisturbed
    one, tensors and all."""

    def short(place: Path) -> Command:
        return training(place, steps=24, evaluate_every=12)

    whole = short(folder / "whole")
    to_the_end(nursery, whole, folder / "whole")
    expected, draw = whole.result(), random.Random(kills)
    seen, rounds, until_first = Counter[bool](), 0, 1.0
    while min(seen[True], seen[False]) < kills:
        place = folder / f"round-{rounds}"
        command, rounds = short(place), rounds + 1
        for _ in range(8):
            wanted = seen[True] < kills and (seen[False] >= kills or draw.random() < 0.5)
            began = time.monotonic()
            killed_after = killed_around_a_checkpoint(
                started(nursery, command, place), place / "run", wanted, draw.uniform(0, until_first)
            )
            if killed_after is None:
                break
            if wanted and killed_after:
                until_first = 0.9 * until_first + 0.1 * (time.monotonic() - began)
            seen[killed_after] += 1
        if not command.done():
            to_the_end(nursery, command, place)
        assert_identical(command.result(), expected, f"round {rounds}")
        shutil.rmtree(place)
    return {"kills before a new checkpoint": seen[False], "kills just after one": seen[True], "runs, all as undisturbed": rounds}


@pytest.mark.long
def test_kills_before_and_after_checkpoints_lose_nothing(nursery: Nursery, tmp_path: Path, tally: Tally) -> None:
    tally("`train --resume`", survives_around_checkpoints(nursery, KILLS, tmp_path))


@pytest.mark.long
def test_a_few_kills_lose_nothing(nursery: Nursery, tmp_path: Path) -> None:
    survives(nursery, training, QUICK, tmp_path)


# Several processes


def pair(folder: Path, parallel: str) -> Command:
    """A training for two processes."""
    settings = {"steps": 40, "checkpoint_every": 3, "timeout": 20, "parallel": parallel}
    recipe, run = recipe_file(tiny("transformer", dropout=0.2, batch=4, **settings), folder), folder / "run"

    def result() -> Any:
        assert_no_temporaries(run)
        opened = RunFolder.open(run)
        kept = files.load_tensors(opened.model)
        return {"model": kept, "log": [(line["step"], line["loss"]) for line in read_log(opened.log)]}

    suffix = ".sharded" if parallel == "fsdp" else ".safetensors"
    finished = run / "checkpoints" / f"step-00000040{suffix}"
    return Command(("train", recipe, "--out", run, "--resume"), finished.exists, result)


def started_pair(nursery: Nursery, command: Command, folder: Path) -> list[Child]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "FIRTH_CACHE": str(folder / "cache")}
    return [nursery.start(*command.arguments, RANK=rank, LOCAL_RANK=rank, **common) for rank in "01"]


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_kills_of_one_or_both_of_two_processes_lose_nothing(
    parallel: str, nursery: Nursery, tmp_path: Path, tally: Tally
) -> None:
    """The one that is left ends by itself, as torchrun expects of it."""
    whole = pair(tmp_path / "whole", parallel)
    began = time.monotonic()
    for child in started_pair(nursery, whole, tmp_path / "whole"):
        assert child.wait() == 0, child.said()
    seconds, expected = time.monotonic() - began, whole.result()
    moments, done, rounds = random.Random(FEW), 0, itertools.count()
    while done < FEW:
        place = tmp_path / f"round-{next(rounds)}"
        command = pair(place, parallel)
        for _ in range(8):  # at most: then it may end
            children = started_pair(nursery, command, place)
            seconds = wait_for(children[0], moments.uniform(0, seconds)) or seconds
            for child in moments.choice((children[:1], children[1:], children)):
                child.send(signal.SIGKILL)
            killed = [child.wait() for child in children].count(-signal.SIGKILL)
            done += killed
            if not killed or command.done() or done >= FEW:
                break
        if not command.done():
            for child in started_pair(nursery, command, place):
                assert child.wait() == 0, child.said()
        assert_identical(command.result(), expected, str(place))
    tally(f"two processes, {parallel}", {"kills": done, "runs": next(rounds)})


# Other disturbances


@pytest.mark.long
def test_a_process_that_stands_still_goes_on_as_if_nothing_had_happened(nursery: Nursery, tmp_path: Path) -> None:
    whole, stopped = training(tmp_path / "whole"), training(tmp_path / "stopped")
    to_the_end(nursery, whole, tmp_path / "whole")
    child = started(nursery, stopped, tmp_path / "stopped")
    for _ in range(5):
        time.sleep(0.1)
        child.send(signal.SIGSTOP)
        time.sleep(0.3)
        child.send(signal.SIGCONT)
    assert child.wait() == 0, child.said()
    assert_identical(stopped.result(), whole.result())


@pytest.mark.long
def test_two_processes_may_build_one_cache(nursery: Nursery, tmp_path: Path) -> None:
    expected = caching(tmp_path / "whole")
    to_the_end(nursery, expected, tmp_path / "whole")
    both = [caching(tmp_path / name) for name in ("one", "two")]
    cache = str(tmp_path / "shared")
    children = [nursery.start(*command.arguments, FIRTH_CACHE=cache) for command in both]
    for child in children:
        assert child.wait() == 0, child.said()
    wanted = expected.result()
    for command in both:
        assert_identical(command.result()["model"], wanted["model"])
    assert not list(Path(cache).glob(".writing-*"))


@pytest.mark.long
def test_the_second_process_of_a_run_is_refused_and_a_killed_one_leaves_no_lock(nursery: Nursery, tmp_path: Path) -> None:
    recipe = recipe_file(tiny(steps=100_000, checkpoint_every=3, schedule="constant"), tmp_path)
    run = tmp_path / "run"
    first = nursery.start("train", recipe, "--out", run)
    first.reaches(run, 3)
    second = nursery.start("train", recipe, "--out", run, "--resume")
    assert second.wait() == 2
    assert second.said() == f"firth: another process is training into {run}. Wait until it ends, or choose another --out\n"
    first.send(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    third = nursery.start("train", recipe, "--out", run, "--resume")
    third.reaches(run, newest(run) + 3)
    third.send(signal.SIGTERM)
    assert third.wait() == 143, third.said()
