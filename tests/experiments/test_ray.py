"""A study and a sweep on a Ray cluster of two nodes, both on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from on_clusters import command, facts, saved_steps, times_begun, wait_for_checkpoints
from sweeping import table

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="needs signals")]

# In a process of its own: Ray changes its process, and prints.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
small = {"num_cpus": 2, "object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
nodes = []
for line in sys.stdin:
    if line.strip() == "add":
        nodes.append(cluster.add_node(**small))
    elif line.strip() == "kill":
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    print(cluster.address, file=sys.stderr, flush=True)
cluster.shutdown()
"""


class Nodes:
    """The cluster. It prints to a file, so that no pipe fills up."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "told"
        with self.told.open("w") as told:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CLUSTER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=told,
                text=True,
                env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
                start_new_session=True,
            )
        self.asked = 0
        self.address = self.ask("add")

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        self.asked += 1
        while True:
            assert self.process.poll() is None, self.told.read_text()
            answers = [line for line in self.told.read_text().splitlines() if line.count(":") == 1 and line[-1:].isdecimal()]
            if len(answers) == self.asked:
                return answers[-1]
            time.sleep(0.1)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    started = Nodes(tmp_path_factory.mktemp("cluster"))
    yield started
    assert started.process.stdin is not None
    started.process.stdin.close()
    started.process.wait(60)


def test_a_node_that_dies_loses_nothing(nodes: Nodes, study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", "--json", "--ray", nodes.address)
    wait_for_checkpoints(process, tmp_path / "out", 3)  # on either node
    nodes.ask("kill")
    try:
        assert facts(process)["arms"] == alone
    finally:
        nodes.ask("add")
    assert sorted(set(times_begun(tmp_path / "out"))) == [1, 2]
    left = {path.name for path in (tmp_path / "out").iterdir()} | {path.suffix for path in (tmp_path / "out/runs").iterdir()}
    assert left == {"plan.json", "faster.html", "runs", ""}


def test_ctrl_c_saves_the_runs_of_all_nodes(nodes: Nodes, study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", "--ray", nodes.address)
    wait_for_checkpoints(process, tmp_path / "out", 3)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert any(step % 20 for step in saved_steps(tmp_path / "out"))  # at which no checkpoint is due
    assert facts(command("reproduce", study, tmp_path / "out", "--json", "--ray", nodes.address))["arms"] == alone


def test_a_first_machine_that_is_killed_takes_its_runs_with_it(nodes: Nodes, study: Path, alone: Any, tmp_path: Path) -> None:
    process = command("reproduce", study, tmp_path / "out", "--ray", nodes.address)
    wait_for_checkpoints(process, tmp_path / "out", 1)
    process.kill()
    process.communicate()
    assert facts(command("reproduce", study, tmp_path / "out", "--json"))["arms"] == alone  # now on this machine alone


def test_a_sweep_on_a_cluster_gives_the_trials_of_one_machine(nodes: Nodes, study: Path, tmp_path: Path) -> None:
    recipe = study.parent / "swept.toml"
    recipe.write_text(tomli_w.dumps(table(steps=60, evaluate_every=20, checkpoint_every=10)))
    given = ("--range", "training.rate=log:1e-3:1e-1", "--sampler", "random", "--trials", 4, "--json")
    here = facts(command("sweep", recipe, tmp_path / "here", *given))["trials"]
    there = facts(command("sweep", recipe, tmp_path / "there", *given, "--ray", nodes.address))["trials"]
    for one, other in zip(here, there, strict=True):
        assert (one["settings"], one["ending"], one["value"]) == (other["settings"], other["ending"], other["value"])


def test_an_error_and_a_wrong_address_are_one_line(nodes: Nodes, study: Path, tmp_path: Path) -> None:
    broken = study.parent / "broken.toml"
    broken.write_text(study.read_text().replace('metric = "loss"', 'metric = "losss"'))
    cases = [(broken, nodes.address, 'has no "losss"'), (study, "127.0.0.1:1", 'cannot connect to Ray at "127.0.0.1:1"')]
    for file, address, message in cases:
        process = command("reproduce", file, tmp_path / file.stem, "--ray", address, "--scale", "one")
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (2, ""), err
        assert message in err.splitlines()[-1]


def test_a_program_that_uses_ray_keeps_its_connection(nodes: Nodes, study: Path, tmp_path: Path) -> None:
    script = f"""
import firth, ray
ray.init({nodes.address!r}, log_to_driver=False)
firth.use("cell.py")
report = firth.reproduce({study.name!r}, scale="one", out={str(tmp_path / "out")!r}, ray="auto", progress=False)
assert report.values("gru", "loss")[0] > 0
assert ray.is_initialized()
"""
    answer = subprocess.run([sys.executable, "-c", script], cwd=study.parent, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
